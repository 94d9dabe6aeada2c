"""The last choice: feasible architectures judged by what slicing alone leaves of the parent."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from autocompress.contract.progress import Progress
from autocompress.domain.architecture import Architecture
from autocompress.models.heterogeneous import HeterogeneousForCausalLM
from autocompress.search.grid import CostGrid, Selection
from autocompress.search.repair import Repaired, Scores, likeliest, repair
from autocompress.training.distil import hidden_states
from autocompress.training.losses import forward_kl
from autocompress.weights.slicing import slice_model


def draw(
    grid: CostGrid,
    scores: Scores,
    ceiling: Sequence[float],
    *,
    samples: int,
    seed: int,
    others: Sequence[Selection] = (),
) -> tuple[Repaired, ...]:
    """The repaired likeliest architecture first, then repaired samples of the router's own
    distribution, then ``others``, repaired too; each once.

    Raises:
        InfeasibleError: no architecture holds every limit.
    """
    generator = np.random.default_rng(seed)
    hidden, blocks = scores
    starts = [likeliest(scores)]
    for _ in range(samples):
        noisy = (
            hidden + generator.gumbel(size=hidden.shape),
            [row + generator.gumbel(size=row.shape) for row in blocks],
        )
        starts.append(likeliest(noisy))
    starts += others
    repaired: dict[Selection, Repaired] = {}
    for start in starts:
        found = repair(grid, scores, start, ceiling)
        repaired.setdefault(found.selection, found)
    return tuple(repaired.values())


@torch.no_grad()
def slicing_loss(
    reordered: HeterogeneousForCausalLM, architecture: Architecture, rows: Tensor, target: Tensor
) -> float:
    """KL(parent || slice) on ``rows [n, s]`` in nats per token; ``target``: the parent's states."""
    sliced = slice_model(reordered, architecture).to(reordered.device).eval()
    states = hidden_states(sliced, rows.to(reordered.device))
    return float(forward_kl(states, sliced.lm_head.weight, target, reordered.lm_head.weight))


def best(
    reordered: HeterogeneousForCausalLM,
    architectures: Sequence[Architecture],
    rows: Tensor,
    progress: Progress,
) -> tuple[int, tuple[float, ...]]:
    """The index of the architecture that loses least by slicing, and all losses."""
    progress.task("judging finalists", len(architectures))
    with torch.no_grad():
        target = hidden_states(reordered, rows.to(reordered.device))
    losses = []
    for architecture in architectures:
        losses.append(slicing_loss(reordered, architecture, rows, target))
        progress.advance(1, note=f"loss {losses[-1]:.3f}")
    return int(np.argmin(losses)), tuple(losses)
