"""Which nodes fit a target: label requirements, as a pod's affinity and as a judgement of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from autocompress.api.v1alpha1.status import FailureReason
from autocompress.domain.deployment import Accelerator
from autocompress_operator.snapshot import Node

GPU_RESOURCE = "nvidia.com/gpu"

_PRODUCT = "nvidia.com/gpu.product"
_MEMORY_MIB = "nvidia.com/gpu.memory"
_COMPUTE_MAJOR = "nvidia.com/gpu.compute.major"
_SHARING = "nvidia.com/gpu.sharing-strategy"
_MIG_CONFIG = "nvidia.com/mig.config"
_MIG_STATE = "nvidia.com/mig.config.state"

_MIB = 1 << 20
#: A slice's product reads A100-SXM4-40GB-MIG-1g.5gb.
_SLICE = "-MIG-"
_SHARED = "-SHARED"
_NAMES_SHOWN = 3


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
    """Whether figures of the deployment are measured on the device."""

    MEASURE = "Measure"
    COMPUTE = "Compute"


def node_terms(accelerator: Accelerator, use: Use) -> tuple[Term, ...]:
    """What a node must be for a GPU target; none for a target that runs on processors."""
    if accelerator.product is None:
        return ()
    device = (Requirement(_PRODUCT, Operator.IN, (accelerator.product,)), *_bounds(accelerator))
    if use is Use.MEASURE:
        device += (Requirement(_SHARING, Operator.NOT_IN, ("time-slicing", "mps")),)
    settled = Requirement(_MIG_STATE, Operator.NOT_IN, ("pending", "rebooting", "failed"))
    if _SLICE in accelerator.product:
        return ((*device, settled),)
    # A node that is being divided, or divided with the mixed strategy, keeps the product's name.
    return (
        (*device, Requirement(_MIG_CONFIG, Operator.ABSENT)),
        (*device, Requirement(_MIG_CONFIG, Operator.IN, ("all-disabled",)), settled),
    )


def _bounds(accelerator: Accelerator) -> Term:
    bounds: Term = ()
    if accelerator.min_memory_bytes is not None:
        least_mib = -(-accelerator.min_memory_bytes // _MIB)
        bounds += (Requirement(_MEMORY_MIB, Operator.GREATER, (str(least_mib - 1),)),)
    if accelerator.min_compute_major is not None:
        below = str(accelerator.min_compute_major - 1)
        bounds += (Requirement(_COMPUTE_MAJOR, Operator.GREATER, (below,)),)
    return bounds


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """Nodes that fit, by name."""

    names: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Missing:
    """No node fits; the message says what is there instead."""

    reason: FailureReason
    message: str


def find_nodes(accelerator: Accelerator, nodes: Sequence[Node]) -> Found | Missing:
    """Nodes on which a GPU target can be measured."""
    terms = node_terms(accelerator, Use.MEASURE)
    fitting = [
        node.name
        for node in nodes
        if any(all(part.holds(node.labels) for part in term) for term in terms)
    ]
    large = [node.name for node in nodes if node.name in fitting and node.gpus >= accelerator.count]
    if large:
        return Found(names=tuple(sorted(large)))
    product = accelerator.product or ""
    if fitting:
        return Missing(
            reason=FailureReason.NO_MATCHING_NODE,
            message=f"No node has {accelerator.count} GPUs of {product}; those that have it, "
            f"{_listed(fitting)}, have fewer. Add a node, or lower target.accelerator.count in a "
            "new job.",
        )
    return _missing(product, accelerator, nodes)


def _missing(product: str, accelerator: Accelerator, nodes: Sequence[Node]) -> Missing:
    alike = [node for node in nodes if _base(node.labels.get(_PRODUCT, "")) == _base(product)]
    if not alike:
        there = sorted({node.labels[_PRODUCT] for node in nodes if _PRODUCT in node.labels})
        return Missing(
            reason=FailureReason.NO_MATCHING_NODE,
            message=f"No node has the label {_PRODUCT}={product}"
            + (f"; there are {_listed(there)}" if there else "; no node has this label")
            + ". Waiting for one: add a node, or name another product in a new job.",
        )
    divided = [node.name for node in alike if _divided(node) != (_SLICE in product)]
    if len(divided) == len(alike) or _SLICE in product:
        whole = "a slice of its own name" if _SLICE in product else "a whole GPU"
        return Missing(
            reason=FailureReason.MIG_MISMATCH,
            message=f"{product} is there on {_listed(n.name for n in alike)}, but not as {whole}: "
            "the MIG configuration differs or is being changed. Reconfigure a node, or name the "
            "slice's product in a new job.",
        )
    rest = [node for node in alike if not _divided(node)]
    shared = [node.name for node in rest if _shares(node)]
    if len(shared) == len(rest):
        return Missing(
            reason=FailureReason.NO_MATCHING_NODE,
            message=f"{product} is there on {_listed(shared)}, but shared by time-slicing or MPS; "
            "a budget is measured on a GPU of its own. Add a node that does not share its GPUs.",
        )
    return Missing(
        reason=FailureReason.NO_MATCHING_NODE,
        message=f"{product} is there on {_listed(n.name for n in rest)}, but not with the "
        "memory or compute capability that target.accelerator asks for, or without the labels "
        f"{_MEMORY_MIB} and {_COMPUTE_MAJOR} that would tell.",
    )


def _base(product: str) -> str:
    return product.removesuffix(_SHARED).partition(_SLICE)[0]


def _divided(node: Node) -> bool:
    config = node.labels.get(_MIG_CONFIG, "all-disabled")
    return _SLICE in node.labels.get(_PRODUCT, "") or config != "all-disabled"


def _shares(node: Node) -> bool:
    sharing = node.labels.get(_SHARING, "none")
    return sharing in ("time-slicing", "mps") or node.labels.get(_PRODUCT, "").endswith(_SHARED)


def _listed(names: Iterable[str]) -> str:
    every = sorted(names)
    shown = ", ".join(every[:_NAMES_SHOWN])
    return shown if len(every) <= _NAMES_SHOWN else f"{shown} and others"
