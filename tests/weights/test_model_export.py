"""The most widely served form that can hold a model is written, and computes the same."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch
from transformers import AutoModelForCausalLM

from autocompress.contract.errors import DataError
from autocompress.domain.architecture import Architecture, Attention, Mlp, Skip
from autocompress.families.formats import ExportFormat
from autocompress.families.traits import Traits
from autocompress.models.checkpoint import load, save
from autocompress.models.tensor_files import open_tensors
from autocompress.testing.models import random_model, small_parent
from autocompress.weights.export import export

_ALL = tuple(ExportFormat)
_UNIFORM = small_parent()


def _attention(**changes: object) -> Attention:
    return Attention(**{"query_heads": 4, "kv_heads": 2, "head_dim": 16} | changes)


def _with(*blocks, hidden_size: int = 64, tied: bool = True) -> Architecture:
    return Architecture(
        hidden_size=hidden_size, vocab_size=256, tied_embeddings=tied, blocks=blocks
    )


_MLP = Mlp(intermediate_size=96)
_CASES = {
    "uniform llama": (_UNIFORM, "llama", ExportFormat.PLAIN, "llama"),
    "uniform mistral": (small_parent(tied=False), "mistral", ExportFormat.PLAIN, "mistral"),
    "uniform qwen3": (small_parent(qk_norm=True), "qwen3", ExportFormat.PLAIN, "qwen3"),
    "uniform qwen2": (_with(_attention(qkv_bias=True), _MLP), "qwen2", ExportFormat.PLAIN, "qwen2"),
    "biases": (small_parent(bias=True), "llama", ExportFormat.PLAIN, "llama"),
    "heads that llama refuses": (
        _with(_attention(query_heads=6), _MLP, hidden_size=64),
        "llama",
        ExportFormat.PLAIN,
        "mistral",
    ),
    "a window": (_with(_attention(window=9), _MLP), "mistral", ExportFormat.PLAIN, "mistral"),
    "uneven widths": (
        _with(_attention(), _MLP, _attention(kv_heads=1), Mlp(intermediate_size=256)),
        "llama",
        ExportFormat.NEMOTRON_NAS,
        "nemotron-nas",
    ),
    "skips": (
        _with(_attention(), Skip(), Skip(), _MLP, tied=False),
        "llama",
        ExportFormat.NEMOTRON_NAS,
        "nemotron-nas",
    ),
    "first attention skipped": (
        _with(Skip(), _MLP, _attention(), _MLP),
        "llama",
        ExportFormat.AUTOCOMPRESS,
        "autocompress",
    ),
    "uneven query heads": (
        _with(_attention(), _MLP, _attention(query_heads=2), _MLP),
        "llama",
        ExportFormat.AUTOCOMPRESS,
        "autocompress",
    ),
    "pruned qwen2": (
        _with(_attention(qkv_bias=True, query_heads=2), _MLP),
        "qwen2",
        ExportFormat.AUTOCOMPRESS,
        "autocompress",
    ),
    "biased qwen3": (
        small_parent(bias=True, qk_norm=True),
        "qwen3",
        ExportFormat.AUTOCOMPRESS,
        "autocompress",
    ),
    "other activation": (_UNIFORM, "gelu", ExportFormat.AUTOCOMPRESS, "autocompress"),
}


def _traits(family: str) -> Traits:
    act = "gelu" if family == "gelu" else "silu"
    return Traits(family="llama" if family == "gelu" else family, hidden_act=act)


@pytest.mark.parametrize("name", list(_CASES))
def test_the_widest_form_is_chosen_and_computes_the_same(name, tmp_path):
    architecture, family, want_format, want_type = _CASES[name]
    model = random_model(architecture, seed=3, traits=_traits(family))
    save(model, tmp_path / "model", companions=None)

    assert export(tmp_path / "model", tmp_path / "out", _ALL) is want_format

    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["model_type"] == want_type
    assert config.get("head_dim") == 16
    stored = open_tensors(tmp_path / "out")
    elements = sum(torch.Size(shape).numel() for shape in stored.shapes.values())
    assert elements == architecture.parameters()
    ids = torch.randint(0, 256, (2, 24), generator=torch.Generator().manual_seed(3))
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path / "out", dtype=torch.float32).eval()
    with torch.no_grad():
        want = model(ids).logits
        torch.testing.assert_close(load(tmp_path / "out", torch.float32)(ids).logits, want)
        torch.testing.assert_close(theirs(ids).logits, want, atol=1e-5, rtol=1e-5)


def test_only_allowed_formats_are_written(tmp_path):
    save(random_model(_UNIFORM, seed=3), tmp_path / "model", companions=None)
    own = (ExportFormat.AUTOCOMPRESS,)
    assert export(tmp_path / "model", tmp_path / "own", own) is ExportFormat.AUTOCOMPRESS
    uneven = dataclasses.replace(_UNIFORM, blocks=(Skip(), *_UNIFORM.blocks[1:]))
    save(random_model(uneven, seed=3), tmp_path / "uneven", companions=None)
    with pytest.raises(DataError, match=r"plain: blocks do not alternate.*first layer has no"):
        export(
            tmp_path / "uneven",
            tmp_path / "none",
            (ExportFormat.NEMOTRON_NAS, ExportFormat.PLAIN),
        )
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("name", ["uniform llama", "skips", "first attention skipped"])
def test_element_type_and_tokenizer_are_kept(name, tmp_path):
    architecture, family, *_ = _CASES[name]
    model = random_model(architecture, seed=3, traits=_traits(family), dtype=torch.bfloat16)
    save(model, tmp_path / "model", companions=None)
    (tmp_path / "model" / "tokenizer.json").write_text("{}")
    export(tmp_path / "model", tmp_path / "out", _ALL)
    assert set(open_tensors(tmp_path / "out").dtypes.values()) == {torch.bfloat16}
    assert (tmp_path / "out" / "tokenizer.json").read_text() == "{}"
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path / "out", dtype="auto")
    assert theirs.dtype == torch.bfloat16
