"""The engine's command-line arguments and environment for one deployment; server and step timing
share them. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from autocompress.contract.errors import SpecError
from autocompress.domain.architecture import Architecture
from autocompress.domain.deployment import AcceleratorKind, EngineName, Target, Workload

#: Tokens of one KV-cache block: vLLM's default on CPUs, fixed so that memory is known beforehand.
KV_BLOCK_TOKENS = 128

#: vLLM's BlockPool holds back one block ("null block") for itself.
RESERVED_KV_BLOCKS = 1

_PRECISION_NAMES = {"BF16": "bfloat16", "FP16": "float16", "FP32": "float32"}


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
    per_sequence = math.ceil(workload.context_tokens / KV_BLOCK_TOKENS)
    return workload.max_sequences * per_sequence + RESERVED_KV_BLOCKS


def kv_cache_bytes(architecture: Architecture, target: Target, workload: Workload) -> int:
    """Bytes of the KV cache that the workload needs; the engine's own accounting is equal
    (``num_blocks`` times the page sizes of all layers).
    """
    per_token = architecture.kv_bytes_per_token(target.precision.bytes_per_element)
    return kv_blocks(workload) * KV_BLOCK_TOKENS * per_token


def engine_arguments(target: Target, workload: Workload, kv_bytes: int) -> tuple[str, ...]:
    """Arguments of ``vllm serve`` after the model; the job's own flags come last and win."""
    return (
        *("--dtype", _PRECISION_NAMES[target.precision.value]),
        *("--max-model-len", str(workload.context_tokens)),
        *("--max-num-seqs", str(workload.max_sequences)),
        *("--block-size", str(KV_BLOCK_TOKENS)),
        *("--kv-cache-memory-bytes", str(kv_bytes)),
        *("--tensor-parallel-size", str(target.engine.tensor_parallel)),
        "--no-enable-prefix-caching",
        "--enforce-eager",
        *target.engine.flags,
    )


def environment(inherited: Mapping[str, str], *, log_level: str) -> dict[str, str]:
    """The environment of an engine process.

    One OpenMP thread, not bound to a core, in server and step timing alike: more threads spin in
    barriers as soon as anything else runs, and the two must compute alike to be compared.
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
        "PYTHONUNBUFFERED": "1",
    }
