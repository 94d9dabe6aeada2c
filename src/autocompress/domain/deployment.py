"""Where a model will run and what it will be asked: accelerator, engine, precision, workload."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class AcceleratorKind(StrEnum):
    """What kind of device serves the model."""

    GPU = "GPU"
    CPU = "CPU"


class EngineName(StrEnum):
    """Serving engines."""

    VLLM = "VLLM"
    TENSORRT_LLM = "TensorRTLLM"
    TRANSFORMERS = "Transformers"


class Precision(StrEnum):
    """Element type of weights and activations."""

    BF16 = "BF16"
    FP16 = "FP16"
    FP32 = "FP32"

    @property
    def bytes_per_element(self) -> int:
        """Bytes of one element."""
        return 4 if self is Precision.FP32 else 2

    @property
    def torch_name(self) -> str:
        """The attribute of ``torch`` with this type."""
        return {"BF16": "bfloat16", "FP16": "float16", "FP32": "float32"}[self.value]


@dataclass(frozen=True, kw_only=True, slots=True)
class Accelerator:
    """The device; ``product`` is the exact GPU feature discovery label, for GPUs only."""

    kind: AcceleratorKind
    product: str | None = None
    count: int = 1
    min_memory_bytes: int | None = None
    min_compute_major: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Engine:
    """The serving engine as deployed."""

    name: EngineName
    version: str
    tensor_parallel: int = 1
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """One deployment target."""

    accelerator: Accelerator
    engine: Engine
    precision: Precision


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """What the deployment serves. ``context_tokens`` and ``max_sequences`` are what memory must
    hold; ``request_set_uri`` names a file of requests that replaces the fixed lengths.
    """

    prompt_tokens: int
    output_tokens: int
    concurrency: int
    context_tokens: int
    max_sequences: int
    request_set_uri: str | None = None
