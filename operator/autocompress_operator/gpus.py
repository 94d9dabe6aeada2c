"""Which nodes fit a target, and what is there instead where none does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from autocompress.api.gpu_nodes import (
    COMPUTE_MAJOR_LABEL,
    MEMORY_LABEL,
    MIG_CONFIG_LABEL,
    PRODUCT_LABEL,
    SHARING_LABEL,
    SLICE_MARK,
    Use,
    node_terms,
)
from autocompress.api.v1alpha1.status import FailureReason
from autocompress.domain.deployment import Accelerator
from autocompress_operator.snapshot import Node

_SHARED = "-SHARED"
_NAMES_SHOWN = 3


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
    alike = [node for node in nodes if _base(node.labels.get(PRODUCT_LABEL, "")) == _base(product)]
    if not alike:
        there = sorted(
            {node.labels[PRODUCT_LABEL] for node in nodes if PRODUCT_LABEL in node.labels}
        )
        return Missing(
            reason=FailureReason.NO_MATCHING_NODE,
            message=f"No node has the label {PRODUCT_LABEL}={product}"
            + (f"; there are {_listed(there)}" if there else "; no node has this label")
            + ". Waiting for one: add a node, or name another product in a new job.",
        )
    divided = [node.name for node in alike if _divided(node) != (SLICE_MARK in product)]
    if len(divided) == len(alike) or SLICE_MARK in product:
        whole = "a slice of its own name" if SLICE_MARK in product else "a whole GPU"
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
        f"{MEMORY_LABEL} and {COMPUTE_MAJOR_LABEL} that would tell.",
    )


def _base(product: str) -> str:
    return product.removesuffix(_SHARED).partition(SLICE_MARK)[0]


def _divided(node: Node) -> bool:
    config = node.labels.get(MIG_CONFIG_LABEL, "all-disabled")
    return SLICE_MARK in node.labels.get(PRODUCT_LABEL, "") or config != "all-disabled"


def _shares(node: Node) -> bool:
    sharing = node.labels.get(SHARING_LABEL, "none")
    return sharing in ("time-slicing", "mps") or node.labels.get(PRODUCT_LABEL, "").endswith(
        _SHARED
    )


def _listed(names: Iterable[str]) -> str:
    every = sorted(names)
    shown = ", ".join(every[:_NAMES_SHOWN])
    return shown if len(every) <= _NAMES_SHOWN else f"{shown} and others"
