"""vLLM itself on a tiny model: steps, memory, a server, and starts that fail."""

from __future__ import annotations

import json
import os
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest

from autocompress.contract.errors import EngineError, SpecError
from autocompress.domain.architecture import Architecture, Attention, Mlp, Skip
from autocompress.domain.deployment import (
    Accelerator,
    AcceleratorKind,
    Engine,
    EngineName,
    Precision,
    Target,
    Workload,
)
from autocompress.engines.vllm.arguments import check_target, kv_cache_bytes
from autocompress.engines.vllm.conditions import check_version
from autocompress.engines.vllm.inprocess import step_timer, write_config
from autocompress.engines.vllm.server import serve

TARGET = Target(
    accelerator=Accelerator(kind=AcceleratorKind.CPU),
    engine=Engine(name=EngineName.VLLM, version="0.32.0"),
    precision=Precision.FP32,
)
WORKLOAD = Workload(
    prompt_tokens=40, output_tokens=16, concurrency=2, context_tokens=130, max_sequences=3
)
WIDE = Attention(query_heads=4, kv_heads=4, head_dim=32)
NARROW = Attention(query_heads=4, kv_heads=1, head_dim=32)
TINY = Architecture(
    hidden_size=64,
    vocab_size=256,
    tied_embeddings=True,
    blocks=(WIDE, Mlp(intermediate_size=128), Skip(), Mlp(intermediate_size=64), NARROW, Skip()),
)


def test_kv_bytes_are_whole_blocks_for_all_sequences() -> None:
    # Three sequences of two blocks of 128 tokens, one block kept back; 2 x (4 + 1) x 32 x 4 bytes.
    assert kv_cache_bytes(TINY, TARGET, WORKLOAD) == 7 * 128 * 2 * 5 * 32 * 4


def test_targets_that_cannot_be_measured_are_all_named() -> None:
    target = replace(
        TARGET,
        accelerator=Accelerator(kind=AcceleratorKind.GPU, product="NVIDIA-L40S"),
        engine=Engine(name=EngineName.TENSORRT_LLM, version="1", tensor_parallel=2),
    )
    with pytest.raises(SpecError) as caught:
        check_target(target)
    for field in ("engine.name", "accelerator.kind", "engine.tensorParallel"):
        assert f"target.{field}" in str(caught.value)


@pytest.mark.engine
def test_another_version_is_refused() -> None:
    with pytest.raises(SpecError, match=r"target\.engine\.version: 0\.1\.0"):
        check_version(replace(TARGET.engine, version="0.1.0"))


@pytest.mark.slow
@pytest.mark.engine
def test_steps_and_memory_of_models_side_by_side(tmp_path: Path) -> None:
    deeper = replace(TINY, blocks=TINY.blocks * 2)
    with step_timer(
        TARGET, WORKLOAD, scratch=tmp_path / "models", log_path=tmp_path / "log"
    ) as timer:
        small, large = timer.open({"small": TINY, "large": deeper})
        assert small.kv_bytes == kv_cache_bytes(TINY, TARGET, WORKLOAD)
        assert large.kv_bytes == 2 * small.kv_bytes
        assert small.weight_bytes == 4 * TINY.parameters()
        for model in (small, large, small):
            sample = timer.measure(model, decode_steps=5, seed=1)
            assert sample.prefill_seconds > 0
            assert len(sample.decode_seconds) == 5
            assert sample.peak_bytes > model.weight_bytes + model.kv_bytes
        timer.close(large)
        assert timer.measure(small, decode_steps=2, seed=2).name == "small"
        # A model that the engine refuses is an error with its own words; the others go on.
        with pytest.raises(EngineError, match=r"(?s)building odd: .*\|"):
            # Nothing to cache: refused on every processor (which head sizes are is not the same).
            timer.open({"odd": replace(TINY, blocks=(Mlp(intermediate_size=64),))})
        assert timer.measure(small, decode_steps=2, seed=3).decode_seconds


@pytest.mark.slow
@pytest.mark.engine
def test_a_server_is_measured_and_gone_afterwards(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    write_config(TINY, folder, context_tokens=WORKLOAD.context_tokens)
    flags = ("--load-format", "dummy", "--skip-tokenizer-init")
    target = replace(TARGET, engine=replace(TARGET.engine, flags=flags))
    with serve(folder, target=target, workload=WORKLOAD, log_path=tmp_path / "log") as server:
        server.wait_until_ready()
        with urllib.request.urlopen(f"{server.base_url}/v1/models") as answer:
            served = json.load(answer)
        assert [model["id"] for model in served["data"]] == [server.model_name]
        server.reset_peak()
        least = 4 * TINY.parameters() + kv_cache_bytes(TINY, TARGET, WORKLOAD)
        assert server.peak_memory_bytes() > least
    with pytest.raises(EngineError, match="has ended"):
        server.peak_memory_bytes()
    assert not _processes_that_mention(folder)


@pytest.mark.slow
@pytest.mark.engine
def test_a_start_that_fails_shows_the_engines_last_lines(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    write_config(TINY, folder, context_tokens=WORKLOAD.context_tokens)
    target = replace(TARGET, engine=replace(TARGET.engine, flags=("--no-such-flag",)))
    with (
        pytest.raises(EngineError, match=r"(?s)did not start .*no-such-flag"),
        serve(folder, target=target, workload=WORKLOAD, log_path=tmp_path / "log") as server,
    ):
        server.wait_until_ready()
    assert not _processes_that_mention(folder)


def _processes_that_mention(folder: Path) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if str(folder) in command:
                found.append(command)
    return found
