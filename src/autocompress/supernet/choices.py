"""Probabilities over the choices of a search space, and what follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from autocompress.domain.space import AttentionChoices, BlockChoices, MlpChoices, SearchSpace


@dataclass(frozen=True, kw_only=True)
class SoftAttention:
    """Over ``kv_heads [K]`` and ``queries_per_group [Q]``; ``keep []``: that it is not skipped."""

    kv_heads: Tensor
    queries_per_group: Tensor
    keep: Tensor


@dataclass(frozen=True, kw_only=True)
class SoftMlp:
    """Probabilities over ``intermediate_size [W]``; ``keep []``: not skipped."""

    intermediate_size: Tensor
    keep: Tensor


SoftBlock = SoftAttention | SoftMlp


@dataclass(frozen=True, kw_only=True)
class SoftChoices:
    """Probabilities over ``hidden_size [H]`` and of every block."""

    hidden_size: Tensor
    blocks: tuple[SoftBlock, ...]


def prefix_mask(probabilities: Tensor, sizes: Sequence[int], length: int) -> Tensor:
    """``[length]``: for every entry, the probability that the chosen prefix contains it."""
    indicators = (torch.arange(length)[None] < torch.tensor(sizes)[:, None]).to(probabilities)
    return probabilities @ indicators


def candidate_probabilities(soft: SoftBlock, choices: BlockChoices) -> Tensor:
    """Joint probabilities in the order of ``choices.candidates()``."""
    match soft, choices:
        case SoftAttention(), AttentionChoices():
            kept = (soft.kv_heads[:, None] * soft.queries_per_group[None]).flatten() * soft.keep
        case SoftMlp(), MlpChoices():
            kept = soft.intermediate_size * soft.keep
        case _:
            raise TypeError(f"{type(soft).__name__} does not fit {type(choices).__name__}")
    return torch.cat([kept, (1 - soft.keep)[None]]) if choices.may_skip else kept


def corner(space: SearchSpace, hidden_index: int, candidates: Sequence[int]) -> SoftChoices:
    """All probability on one architecture: indices into ``candidates()`` of every block."""
    return SoftChoices(
        hidden_size=_one_hot(hidden_index, len(space.hidden_size)),
        blocks=tuple(
            _corner_block(choices, index)
            for choices, index in zip(space.blocks, candidates, strict=True)
        ),
    )


def _corner_block(choices: BlockChoices, index: int) -> SoftBlock:
    if isinstance(choices, AttentionChoices):
        queries = len(choices.queries_per_group)
        kept = index < len(choices.kv_heads) * queries
        group, query = divmod(index if kept else 0, queries)
        return SoftAttention(
            kv_heads=_one_hot(group, len(choices.kv_heads)),
            queries_per_group=_one_hot(query, queries),
            keep=torch.tensor(float(kept)),
        )
    kept = index < len(choices.intermediate_size)
    return SoftMlp(
        intermediate_size=_one_hot(index if kept else 0, len(choices.intermediate_size)),
        keep=torch.tensor(float(kept)),
    )


def _one_hot(index: int, length: int) -> Tensor:
    vector = torch.zeros(length)
    vector[index] = 1.0
    return vector
