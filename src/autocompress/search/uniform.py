"""The simplest architectures inside a budget: one size for all blocks of a kind. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from autocompress.domain.architecture import Architecture, Attention, Mlp
from autocompress.domain.space import SearchSpace
from autocompress.search.grid import CostGrid, Selection, architecture_at


def uniform_selections(
    space: SearchSpace, grid: CostGrid, ceiling: Sequence[float]
) -> tuple[Selection, ...]:
    """Every architecture inside the limits (``utilization <= ceiling [M]``) that has one choice for
    all blocks of a kind and skips none, except those that another of them contains.
    """
    kinds = sorted({choices.kind for choices in space.blocks})
    counts = {
        kind: min(
            len(list(choices.candidates())) - choices.may_skip
            for choices in space.blocks
            if choices.kind == kind
        )
        for kind in kinds
    }
    options = itertools.product(
        range(len(space.hidden_size)), *(range(counts[kind]) for kind in kinds)
    )
    sizes: dict[Selection, tuple[int, ...]] = {}
    for hidden, *chosen in options:
        index = dict(zip(kinds, chosen, strict=True))
        candidates = tuple(index[choices.kind] for choices in space.blocks)
        selection = Selection(hidden=hidden, candidates=candidates)
        if (grid.utilization(selection) <= np.asarray(ceiling)).all():
            sizes[selection] = _sizes(architecture_at(space, selection))
    return tuple(
        one
        for one in sizes
        if not any(
            sizes[two] != sizes[one]
            and all(a >= b for a, b in zip(sizes[two], sizes[one], strict=True))
            for two in sizes
        )
    )


def _sizes(architecture: Architecture) -> tuple[int, ...]:
    """One size for every axis, of the first block of each kind: the others are as large."""
    sizes = [architecture.hidden_size]
    first = {block.kind: block for block in reversed(architecture.blocks)}
    for block in first.values():
        match block:
            case Attention():
                sizes += [block.kv_heads, block.queries_per_group]
            case Mlp():
                sizes += [block.intermediate_size]
    return tuple(sizes)
