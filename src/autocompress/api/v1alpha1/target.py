"""``spec.target``: accelerator, precision, engine, and what the deployment serves."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from autocompress.api.v1alpha1.fields import Count, Give, Memory, Spec, refuse
from autocompress.api.v1alpha1.workload import WorkloadSpec
from autocompress.domain.deployment import (
    Accelerator,
    AcceleratorKind,
    Engine,
    EngineName,
    Precision,
    Target,
)

Product = Annotated[
    str,
    StringConstraints(max_length=63, pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$"),
    Give("the node label nvidia.com/gpu.product, for example NVIDIA-L40S"),
]
ComputeMajor = Annotated[
    int, Field(ge=1, le=99), Give("a CUDA compute capability's first number, for example 9")
]
Version = Annotated[
    str,
    StringConstraints(max_length=64, pattern=r"^[0-9]+(\.[0-9]+)+([-.+a-z][0-9A-Za-z.+-]*)?$"),
    Give('a version in quotes, for example "0.32.0"'),
]
Flag = Annotated[
    str,
    StringConstraints(max_length=256, pattern=r"^--?[A-Za-z0-9][^\x00-\x1f]*$"),
    Give("a flag of the engine's server, for example --max-num-batched-tokens=2048"),
]


class AcceleratorSpec(Spec):
    """The device that will serve the model."""

    kind: AcceleratorKind
    product: Product | None = None
    count: Count = 1
    min_memory: Memory | None = None
    min_compute_major: ComputeMajor | None = None

    @model_validator(mode="after")
    def _fits_kind(self) -> Self:
        faults = {}
        if self.kind is AcceleratorKind.GPU and self.product is None:
            faults["product"] = (
                "is missing; kind GPU needs the node label nvidia.com/gpu.product, for example "
                "NVIDIA-L40S"
            )
        if self.kind is AcceleratorKind.CPU:
            given = {
                "product": self.product,
                "minMemory": self.min_memory,
                "minComputeMajor": self.min_compute_major,
            }
            for name, value in given.items():
                if value is not None:
                    faults[name] = "does not apply to kind CPU; leave it out"
            if self.count != 1:
                faults["count"] = f"got {self.count}; kind CPU takes 1"
        refuse(faults)
        return self

    def to_domain(self) -> Accelerator:
        """As the stages see it."""
        return Accelerator(
            kind=self.kind,
            product=self.product,
            count=self.count,
            min_memory_bytes=self.min_memory,
            min_compute_major=self.min_compute_major,
        )


class EngineSpec(Spec):
    """The serving engine as it will be deployed."""

    name: EngineName
    version: Version
    tensor_parallel: Count = 1
    flags: Annotated[tuple[Flag, ...], Field(max_length=64)] = ()

    def to_domain(self) -> Engine:
        """As the stages see it."""
        return Engine(
            name=self.name,
            version=self.version,
            tensor_parallel=self.tensor_parallel,
            flags=self.flags,
        )


class TargetSpec(Spec):
    """One deployment target."""

    accelerator: AcceleratorSpec
    precision: Precision
    engine: EngineSpec
    workload: WorkloadSpec

    @model_validator(mode="after")
    def _fits_devices(self) -> Self:
        wanted, there = self.engine.tensor_parallel, self.accelerator.count
        if self.accelerator.kind is AcceleratorKind.GPU and wanted > there:
            refuse(
                {
                    "engine.tensorParallel": f"got {wanted}; accelerator.count is {there}: give at "
                    f"most {there}, or raise the count"
                }
            )
        return self

    def to_domain(self) -> Target:
        """As the stages see it."""
        return Target(
            accelerator=self.accelerator.to_domain(),
            engine=self.engine.to_domain(),
            precision=self.precision,
        )
