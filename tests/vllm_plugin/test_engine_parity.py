"""vLLM serves heterogeneous models, and what export writes, with PyTorch's logits."""

from __future__ import annotations

import importlib.util
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from autocompress.domain.architecture import Architecture, Attention, Mlp, Skip
from autocompress.families.formats import ExportFormat
from autocompress.families.traits import Traits
from autocompress.models.checkpoint import load, save
from autocompress.testing.models import random_model, random_part, small_parent
from autocompress.weights.export import export

pytestmark = [
    pytest.mark.engine,
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed"),
]

_PROGRAM = Path(__file__).with_name("engine_logits.py")
_LLAMA3 = (
    ("factor", 8.0),
    ("high_freq_factor", 4.0),
    ("low_freq_factor", 1.0),
    ("original_max_position_embeddings", 64),
    ("rope_theta", 10000.0),
    ("rope_type", "llama3"),
)


def _architecture(*blocks, hidden_size: int = 64, tied: bool = True) -> Architecture:
    return Architecture(
        hidden_size=hidden_size, vocab_size=256, tied_embeddings=tied, blocks=blocks
    )


def _attention(query_heads: int, kv_heads: int, **changes: object) -> Attention:
    # vLLM's CPU attention takes head dimensions from 32.
    return Attention(query_heads=query_heads, kv_heads=kv_heads, head_dim=32, **changes)


def _mlp(width: int, **changes: object) -> Mlp:
    return Mlp(intermediate_size=width, **changes)


def _random(seed: int, **changes: bool) -> Architecture:
    parent = small_parent(layers=4, **changes)
    wide = [
        replace(block, head_dim=32, query_heads=8, kv_heads=4)
        if isinstance(block, Attention)
        else block
        for block in parent.blocks
    ]
    return random_part(replace(parent, blocks=tuple(wide)), random.Random(seed))


_OWN = (ExportFormat.AUTOCOMPRESS,)
_CASES = {
    "first-block-skipped": (
        _architecture(
            Skip(),
            _mlp(96),
            _attention(4, 1),
            Skip(),
            Skip(),
            _mlp(40),
            _attention(6, 3),
            _mlp(136),
        ),
        Traits(),
        _OWN,
    ),
    "all-of-it": (
        _architecture(
            _mlp(72, bias=True),
            _attention(8, 4, qkv_bias=True, output_bias=True, qk_norm=True),
            _attention(1, 1, qkv_bias=True, output_bias=True, qk_norm=True),
            Skip(),
            _mlp(48, gated=False),
            hidden_size=80,
            tied=False,
        ),
        Traits(rope=_LLAMA3),
        _OWN,
    ),
    "windows": (
        _architecture(_attention(4, 2, window=16), _mlp(64), _attention(4, 2), _mlp(64)),
        Traits(),
        _OWN,
    ),
    "random-tied": (_random(1, tied=True), Traits(), _OWN),
    "random-bias": (_random(2, tied=False, bias=True), Traits(), _OWN),
    "random-qk-norm": (_random(3, tied=True, qk_norm=True), Traits(), _OWN),
    "nemotron-nas": (
        _architecture(
            _attention(4, 4),
            _mlp(256),
            Skip(),
            _mlp(72),
            _attention(4, 1),
            Skip(),
            Skip(),
            Skip(),
            _attention(4, 2),
            _mlp(104),
        ),
        Traits(),
        (ExportFormat.NEMOTRON_NAS,),
    ),
    "plain-llama": (
        _architecture(*(_attention(4, 2), _mlp(72)) * 2, tied=False),
        Traits(rope=_LLAMA3),
        (ExportFormat.PLAIN,),
    ),
    "plain-mistral": (
        _architecture(*(_attention(6, 3), _mlp(72)) * 2),
        Traits(),
        (ExportFormat.PLAIN,),
    ),
    "plain-qwen2": (
        _architecture(*(_attention(2, 1, qkv_bias=True), _mlp(72)) * 2),
        Traits(family="qwen2"),
        (ExportFormat.PLAIN,),
    ),
    "plain-qwen3": (
        _architecture(*(_attention(4, 2, qk_norm=True), _mlp(72)) * 2),
        Traits(family="qwen3"),
        (ExportFormat.PLAIN,),
    ),
}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The models' folders and what the engine computed, for all cases in one engine process."""
    root = tmp_path_factory.mktemp("served")
    folders = []
    for number, (name, (architecture, traits, formats)) in enumerate(_CASES.items()):
        save(
            random_model(architecture, seed=number, traits=traits),
            root / "own" / name,
            companions=None,
        )
        export(root / "own" / name, root / name, formats)
        folders.append(root / name)
    (root / "logits").mkdir()
    finished = subprocess.run(
        [sys.executable, str(_PROGRAM), str(root / "logits"), *map(str, folders)],
        capture_output=True,
        text=True,
        timeout=450,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-4000:]
    return root


@pytest.mark.parametrize("name", list(_CASES))
def test_the_engine_computes_the_logits_of_the_torch_model(served, name):
    engine = load_file(served / "logits" / f"{name}.safetensors")
    model = load(served / "own" / name, torch.float32)
    for number in range(2):
        tokens, logits = engine[f"tokens.{number}"], engine[f"logits.{number}"]
        with torch.no_grad():
            want = model(tokens[None, :-1]).logits[0]
        assert not logits.isnan().any()
        assert (logits - want).abs().max() <= 1e-4
        generated = len(tokens) - 12
        assert tokens[generated:].tolist() == want[generated - 1 :].argmax(-1).tolist()
