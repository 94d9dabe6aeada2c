"""The engine's command-line arguments and environment for one deployment; server and step timing
share them. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from autocompress.contract.errors import SpecError
from autocompress.domain.architecture import Architecture
from autocompress.domain.deployment import AcceleratorKind, EngineName, Precision, Target, Workload

#: Tokens of one KV-cache block: vLLM's default on CPUs, fixed so that memory is known beforehand.
KV_BLOCK_TOKENS = 128

#: vLLM's BlockPool holds back one block ("null block") for itself.
RESERVED_KV_BLOCKS = 1

_PRECISION_NAMES = {"BF16": "bfloat16", "FP16": "float16", "FP32": "float32"}
_ELEMENT_BYTES = {_PRECISION_NAMES[each.value]: each.bytes_per_element for each in Precision}

_KV_BYTES = "--kv-cache-memory-bytes"
_DEFAULT_KV_BYTES = 1 << 30


def check_target(target: Target) -> None:
    """Refuse targets that this module cannot start.

    Raises:
        SpecError: naming the field and the remedy.
    """
    faults = []
    if target.engine.name is not EngineName.VLLM:
        faults.append(
            f"target.engine.name: {target.engine.name.value}: only VLLM can be measured here; "
            "give VLLM"
        )
    if target.accelerator.kind is not AcceleratorKind.CPU:
        faults.append(
            f"target.accelerator.kind: {target.accelerator.kind.value}: the engine installed here "
            "serves on CPUs; give CPU"
        )
    if target.engine.tensor_parallel != 1:
        faults.append(
            f"target.engine.tensorParallel: {target.engine.tensor_parallel}: on a CPU the engine "
            "is measured with one worker; give 1"
        )
    if faults:
        raise SpecError("\n".join(faults))


def kv_blocks(workload: Workload) -> int:
    """KV-cache blocks that hold ``max_sequences`` sequences of ``context_tokens`` tokens, and the
    one that the engine holds back.
    """
    return _blocks(workload.max_sequences, workload.context_tokens)


def _blocks(sequences: int, tokens: int) -> int:
    return sequences * math.ceil(tokens / KV_BLOCK_TOKENS) + RESERVED_KV_BLOCKS


def kv_cache_bytes(architecture: Architecture, target: Target, workload: Workload) -> int:
    """Bytes of the KV cache that the workload needs; the engine's own accounting is equal
    (``num_blocks`` times the page sizes of all layers).
    """
    per_token = architecture.kv_bytes_per_token(target.precision.bytes_per_element)
    return kv_blocks(workload) * KV_BLOCK_TOKENS * per_token


def engine_arguments(target: Target, workload: Workload, kv_bytes: int) -> tuple[str, ...]:
    """Arguments of ``vllm serve`` after the model; the job's own flags come last and win."""
    return (
        *_sizes(target, workload),
        *(_KV_BYTES, str(kv_bytes)),
        *_switches(target),
    )


def deployment_arguments(target: Target, workload: Workload) -> tuple[str, ...]:
    """The same for a model that is not at hand: ``completed`` adds the KV cache's size to them
    where the model is.
    """
    return (*_sizes(target, workload), *_switches(target))


def completed(given: Sequence[str], architecture: Architecture | None) -> tuple[str, ...]:
    """``given`` arguments of ``vllm serve`` with those that must not be left to the engine.

    The KV cache gets what ``--max-num-seqs`` sequences of ``--max-model-len`` tokens need in
    ``--dtype``, where all three are given and the architecture is known, as a measured model has
    it; else 1 GiB. Left alone, vLLM takes nearly all memory of the machine.
    """
    values = _values(given)
    added: tuple[str, ...] = ()
    if _KV_BYTES not in values:
        wanted = architecture and _wanted_kv_bytes(values, architecture)
        added += (_KV_BYTES, str(wanted or _DEFAULT_KV_BYTES))
    if "--enforce-eager" not in values:
        added += ("--enforce-eager",)
    return (*added, *given)


def _sizes(target: Target, workload: Workload) -> tuple[str, ...]:
    return (
        *("--dtype", _PRECISION_NAMES[target.precision.value]),
        *("--max-model-len", str(workload.context_tokens)),
        *("--max-num-seqs", str(workload.max_sequences)),
        *("--block-size", str(KV_BLOCK_TOKENS)),
    )


def _switches(target: Target) -> tuple[str, ...]:
    return (
        *("--tensor-parallel-size", str(target.engine.tensor_parallel)),
        "--no-enable-prefix-caching",
        "--enforce-eager",
        *target.engine.flags,
    )


def _wanted_kv_bytes(values: Mapping[str, str], architecture: Architecture) -> int | None:
    """KV bytes of a deployment by its flags; None where they do not say it."""
    sequences, tokens = values.get("--max-num-seqs", ""), values.get("--max-model-len", "")
    element = _ELEMENT_BYTES.get(values.get("--dtype", ""))
    blocks_are_ours = values.get("--block-size", str(KV_BLOCK_TOKENS)) == str(KV_BLOCK_TOKENS)
    if element is None or not (sequences.isdigit() and tokens.isdigit() and blocks_are_ours):
        return None
    blocks = _blocks(int(sequences), int(tokens))
    return blocks * KV_BLOCK_TOKENS * architecture.kv_bytes_per_token(element)


def _values(arguments: Sequence[str]) -> dict[str, str]:
    """Flags and what follows them; a flag given twice has its last value, as in vLLM."""
    values: dict[str, str] = {}
    for place, argument in enumerate(arguments):
        if argument.startswith("--"):
            flag, equals, value = argument.partition("=")
            following = arguments[place + 1] if place + 1 < len(arguments) else ""
            values[flag] = value if equals else following
    return values


def environment(inherited: Mapping[str, str], *, log_level: str) -> dict[str, str]:
    """The environment of an engine process.

    One OpenMP thread, not bound to a core, in server and step timing alike: more threads spin in
    barriers as soon as anything else runs, and the two must compute alike to be compared.

    A fixed threshold above which glibc takes memory from the kernel, low enough that weights do not
    lie in the heap: there, holes left by loading depend on the order in which threads free memory,
    and the same model needs 6 % more or less as the machine is idle or busy (SmolLM2 in FP32 at the
    default or at 4 MiB: 1459 or 1541 MiB; at 1 MiB: 1448 each time).
    """
    return {
        **inherited,
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_TARGET_DEVICE": "cpu",
        "VLLM_HOST_IP": "127.0.0.1",
        "VLLM_LOGGING_LEVEL": log_level,
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": "1",
        "MALLOC_MMAP_THRESHOLD_": str(1 << 20),
        "PYTHONUNBUFFERED": "1",
    }
