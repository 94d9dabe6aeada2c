"""The cost of every choice as a share of its limit, for the router and for the repair alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from autocompress.cost.model import CostModel
from autocompress.domain.architecture import Architecture
from autocompress.domain.budget import Budget, Metric
from autocompress.domain.space import SearchSpace
from autocompress.supernet.choices import SoftChoices, candidate_probabilities


@dataclass(frozen=True, kw_only=True)
class Selection:
    """One architecture by index: into ``hidden_size`` and into every block's ``candidates()``."""

    hidden: int
    candidates: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class CostGrid:
    """Shares of limits: ``overhead [M, H]``, ``blocks [M, H, B, C]``, padded with zeros over the
    candidates of blocks that have fewer. A sum above 1 is over that limit.
    """

    names: tuple[str, ...]
    overhead: NDArray[np.float64]
    blocks: NDArray[np.float64]
    counts: tuple[int, ...]

    def utilization(self, selection: Selection) -> NDArray[np.float64]:
        """``[M]``: the share of every limit that an architecture uses."""
        rows = np.arange(len(self.counts))
        used = self.blocks[:, selection.hidden, rows, list(selection.candidates)].sum(-1)
        total: NDArray[np.float64] = self.overhead[:, selection.hidden] + used
        return total

    def least(self) -> tuple[float, ...]:
        """For every limit, the smallest share that any architecture uses of it."""
        inside = np.arange(self.blocks.shape[-1]) < np.array(self.counts)[:, None]
        cheapest = np.where(inside, self.blocks, np.inf).min(-1).sum(-1)
        return tuple(float(share) for share in (self.overhead + cheapest).min(-1))

    def expected(self, choices: SoftChoices, space: SearchSpace) -> Tensor:
        """``[M]``: the expected shares, exact over the joint choices of every block and bilinear
        in the probabilities of the hidden size; at a corner equal to ``utilization``.
        """
        width = self.blocks.shape[-1]
        joint = torch.stack(
            [
                torch.nn.functional.pad(probabilities, (0, width - probabilities.shape[0]))
                for probabilities in (
                    candidate_probabilities(soft, sizes)
                    for soft, sizes in zip(choices.blocks, space.blocks, strict=True)
                )
            ]
        )
        overhead = torch.tensor(self.overhead, dtype=torch.float32)
        blocks = torch.tensor(self.blocks, dtype=torch.float32)
        per_hidden = overhead + torch.einsum("mhbc,bc->mh", blocks, joint)
        return per_hidden @ choices.hidden_size


def cost_grid(
    model: CostModel, budget: Budget, bounds: Sequence[float], space: SearchSpace
) -> CostGrid:
    """Costs of ``space`` over ``bounds``, one per limit in base units.

    Throughput enters as its inverse, so that every limit is an upper one.
    """
    counts = tuple(len(list(choices.candidates())) for choices in space.blocks)
    shape = (len(budget.limits), len(space.hidden_size), len(counts), max(counts))
    overhead = np.zeros(shape[:2])
    blocks = np.zeros(shape)
    for index, (limit, bound) in enumerate(zip(budget.limits, bounds, strict=True)):
        upper = 1 / bound if limit.metric is Metric.OUTPUT_THROUGHPUT else bound
        cost = model.additive(limit, space)
        overhead[index] = np.array(cost.overhead) / upper
        for hidden, rows in enumerate(cost.blocks):
            for block, row in enumerate(rows):
                blocks[index, hidden, block, : len(row)] = np.array(row) / upper
    names = tuple(limit.name for limit in budget.limits)
    return CostGrid(names=names, overhead=overhead, blocks=blocks, counts=counts)


def architecture_at(space: SearchSpace, selection: Selection) -> Architecture:
    """The architecture that a selection means."""
    blocks = tuple(
        list(choices.candidates())[index]
        for choices, index in zip(space.blocks, selection.candidates, strict=True)
    )
    return space.at(space.hidden_size[selection.hidden], blocks)
