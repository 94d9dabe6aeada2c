"""From soft choices to one architecture: the likeliest, moved inside the budget. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from autocompress.contract.errors import InfeasibleError
from autocompress.search.grid import CostGrid, Selection

Scores = tuple[NDArray[np.float64], list[NDArray[np.float64]]]


@dataclass(frozen=True, kw_only=True)
class Repaired:
    """An architecture inside all limits, and how many moves led there from the likeliest."""

    selection: Selection
    shrinking_moves: int
    growing_moves: int


def likeliest(scores: Scores) -> Selection:
    """The choice with the highest score on every axis; the larger one of equals."""
    hidden, blocks = scores
    return Selection(
        hidden=int(np.argmax(hidden)),
        candidates=tuple(int(np.argmax(row)) for row in blocks),
    )


def repair(grid: CostGrid, scores: Scores, start: Selection, ceiling: Sequence[float]) -> Repaired:
    """Shrink until every limit holds (``utilization <= ceiling [M]``), then grow while it fits.

    Each move changes one axis of one block. Shrinking takes the move that gives up least score for
    the excess it removes; growing takes the likeliest that still fits, so that little of the budget
    is left. The hidden size stays, being the one choice that all of the model was trained under,
    unless no choice of blocks fits it: then the next smaller one is tried.

    Raises:
        InfeasibleError: not even the smallest choices hold every limit.
    """
    top = np.asarray(ceiling)
    selection, shrunk = start, 0
    while (excess := _excess(grid, selection, top)) > 0:
        best: tuple[float, Selection] | None = None
        for move in _moves(grid, selection):
            gained = excess - _excess(grid, move, top)
            if gained <= 1e-12:
                continue
            price = (_score(scores, selection) - _score(scores, move)) / gained
            if best is None or price < best[0]:
                best = (price, move)
        if best is not None:
            selection = best[1]
        elif selection.hidden + 1 < grid.overhead.shape[1]:
            selection = replace(start, hidden=selection.hidden + 1)
        else:
            raise InfeasibleError("no architecture of the search space is inside every limit")
        shrunk += 1
    grown = 0
    while (larger := _growth(grid, scores, selection, top)) is not None:
        selection, grown = larger, grown + 1
    return Repaired(selection=selection, shrinking_moves=shrunk, growing_moves=grown)


def _growth(
    grid: CostGrid, scores: Scores, selection: Selection, top: NDArray[np.float64]
) -> Selection | None:
    here = _used(grid, selection, top)
    best: tuple[float, float, Selection] | None = None
    for move in _moves(grid, selection):
        # Measured costs are not monotone: a later candidate may cost more, and is still smaller.
        if move.candidates > selection.candidates or _excess(grid, move, top) > 0:
            continue
        gain = _used(grid, move, top) - here
        # Below this, a move makes the model larger only on paper.
        if gain < 1e-4:
            continue
        key = (_score(scores, move), gain)
        if best is None or key > best[:2]:
            best = (*key, move)
    return None if best is None else best[2]


def _moves(grid: CostGrid, selection: Selection) -> Iterator[Selection]:
    for block, count in enumerate(grid.counts):
        here = selection.candidates[block]
        for candidate in range(count):
            if candidate != here:
                changed = list(selection.candidates)
                changed[block] = candidate
                yield replace(selection, candidates=tuple(changed))


def _excess(grid: CostGrid, selection: Selection, top: NDArray[np.float64]) -> float:
    return float(np.maximum(grid.utilization(selection) / top - 1, 0).sum())


def _used(grid: CostGrid, selection: Selection, top: NDArray[np.float64]) -> float:
    # Summed: when one limit is full, what still fits under the others shows.
    return float((grid.utilization(selection) / top).sum())


def _score(scores: Scores, selection: Selection) -> float:
    hidden, blocks = scores
    return float(
        hidden[selection.hidden]
        + sum(row[index] for row, index in zip(blocks, selection.candidates, strict=True))
    )
