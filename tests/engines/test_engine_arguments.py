"""Flags of a deployment: the same whether a job measures the model or somebody serves it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autocompress.domain.architecture import Architecture, Attention, Mlp
from autocompress.domain.deployment import (
    Accelerator,
    AcceleratorKind,
    Engine,
    EngineName,
    Precision,
    Target,
    Workload,
)
from autocompress.engines.vllm.arguments import (
    completed,
    deployment_arguments,
    engine_arguments,
    kv_cache_bytes,
)

TARGET = Target(
    accelerator=Accelerator(kind=AcceleratorKind.CPU),
    engine=Engine(name=EngineName.VLLM, version="0.32.0", flags=("--max-num-batched-tokens=2048",)),
    precision=Precision.BF16,
)
WORKLOAD = Workload(
    prompt_tokens=40, output_tokens=16, concurrency=2, context_tokens=130, max_sequences=3
)
MODEL = Architecture(
    hidden_size=64,
    vocab_size=256,
    tied_embeddings=True,
    blocks=(Attention(query_heads=4, kv_heads=2, head_dim=32), Mlp(intermediate_size=128)),
)


def as_flags(arguments: tuple[str, ...]) -> set[tuple[str, ...]]:
    """Flags with their values, in no order."""
    text = " ".join(arguments)
    return {tuple(f"--{part}".split()) for part in text.split("--") if part.strip()}


@pytest.mark.parametrize("precision", list(Precision))
def test_a_served_model_has_the_flags_that_it_was_measured_with(precision) -> None:
    target = replace(TARGET, precision=precision)
    measured = engine_arguments(target, WORKLOAD, kv_cache_bytes(MODEL, target, WORKLOAD))
    served = completed(deployment_arguments(target, WORKLOAD), MODEL)
    assert as_flags(served) == as_flags(measured)
    assert served[-1] == measured[-1] == "--max-num-batched-tokens=2048"


def test_the_kv_cache_that_a_job_asks_for_is_kept() -> None:
    flags = ("--kv-cache-memory-bytes=4096",)
    target = replace(TARGET, engine=replace(TARGET.engine, flags=flags))
    served = completed(deployment_arguments(target, WORKLOAD), MODEL)
    assert [each for each in served if "kv-cache" in each] == list(flags)


@pytest.mark.parametrize(
    "given",
    [
        (),
        ("--max-model-len", "130", "--max-num-seqs", "3"),
        ("--max-model-len", "130", "--max-num-seqs", "3", "--dtype", "auto"),
        ("--max-model-len", "1k", "--max-num-seqs", "3", "--dtype", "bfloat16"),
        ("--max-num-seqs", "3", "--dtype", "bfloat16", "--max-model-len"),
        ("--max-model-len=130", "--max-num-seqs=3", "--dtype=bfloat16", "--block-size=16"),
    ],
)
def test_a_deployment_that_is_not_described_gets_a_bounded_cache(given) -> None:
    served = completed(given, MODEL)
    assert served[: len(served) - len(given)] == (
        "--kv-cache-memory-bytes",
        str(1 << 30),
        "--enforce-eager",
    )
    assert served[len(served) - len(given) :] == given


def test_a_family_that_only_the_engine_knows_gets_a_bounded_cache() -> None:
    served = completed(deployment_arguments(TARGET, WORKLOAD), None)
    assert served[:2] == ("--kv-cache-memory-bytes", str(1 << 30))
