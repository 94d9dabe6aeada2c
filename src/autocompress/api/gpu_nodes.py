"""Which nodes fit a target: requirements on labels that GPU feature discovery sets. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from autocompress.domain.deployment import Accelerator

GPU_RESOURCE = "nvidia.com/gpu"
PRODUCT_LABEL = "nvidia.com/gpu.product"
MEMORY_LABEL = "nvidia.com/gpu.memory"
COMPUTE_MAJOR_LABEL = "nvidia.com/gpu.compute.major"
SHARING_LABEL = "nvidia.com/gpu.sharing-strategy"
MIG_CONFIG_LABEL = "nvidia.com/mig.config"
MIG_STATE_LABEL = "nvidia.com/mig.config.state"

#: In the product of a MIG slice, such as A100-SXM4-40GB-MIG-1g.5gb.
SLICE_MARK = "-MIG-"

_MIB = 1 << 20


class Operator(StrEnum):
    """How a requirement compares, as in a node selector."""

    IN = "In"
    NOT_IN = "NotIn"
    GREATER = "Gt"
    ABSENT = "DoesNotExist"


@dataclass(frozen=True, slots=True)
class Requirement:
    """What one label of a node must be."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """As the scheduler evaluates it: NotIn admits nodes without the label."""
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value in self.values
            case Operator.NOT_IN:
                return value not in self.values
            case Operator.ABSENT:
                return value is None
            case Operator.GREATER:
                return value is not None and value.isdigit() and int(value) > int(self.values[0])


Term = tuple[Requirement, ...]
"""Requirements that must all hold; of several terms one must."""


class Use(StrEnum):
    """Whether figures of the deployment are measured on the device (or must hold there)."""

    MEASURE = "Measure"
    COMPUTE = "Compute"


def node_terms(accelerator: Accelerator, use: Use) -> tuple[Term, ...]:
    """What a node must be for a GPU target; none for a target that runs on processors."""
    if accelerator.product is None:
        return ()
    product = Requirement(PRODUCT_LABEL, Operator.IN, (accelerator.product,))
    device: Term = (product, *_bounds(accelerator))
    if use is Use.MEASURE:
        device += (Requirement(SHARING_LABEL, Operator.NOT_IN, ("time-slicing", "mps")),)
    settled = Requirement(MIG_STATE_LABEL, Operator.NOT_IN, ("pending", "rebooting", "failed"))
    if SLICE_MARK in accelerator.product:
        return ((*device, settled),)
    # A node that is being divided, or divided with the mixed strategy, keeps the product's name.
    return (
        (*device, Requirement(MIG_CONFIG_LABEL, Operator.ABSENT)),
        (*device, Requirement(MIG_CONFIG_LABEL, Operator.IN, ("all-disabled",)), settled),
    )


def _bounds(accelerator: Accelerator) -> Term:
    bounds: Term = ()
    if accelerator.min_memory_bytes is not None:
        least_mib = -(-accelerator.min_memory_bytes // _MIB)
        bounds += (Requirement(MEMORY_LABEL, Operator.GREATER, (str(least_mib - 1),)),)
    if accelerator.min_compute_major is not None:
        below = str(accelerator.min_compute_major - 1)
        bounds += (Requirement(COMPUTE_MAJOR_LABEL, Operator.GREATER, (below,)),)
    return bounds
