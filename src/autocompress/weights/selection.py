"""Which entries of every axis are taken, and taking them: what reordering and slicing share."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from autocompress.domain.architecture import Attention
from autocompress.models.layout import Axis, TensorLayout

#: For every axis the entries to take, in order; an axis that is not there is taken whole.
Entries = Mapping[Axis, torch.Tensor]


def select(
    tensor: torch.Tensor, layout: TensorLayout, hidden: torch.Tensor, blocks: tuple[Entries, ...]
) -> torch.Tensor:
    """The chosen entries of one tensor along each of its axes.

    ``hidden`` holds entries of the hidden axis, which all tensors share; ``blocks`` those of the
    axes that belong to a block.
    """
    own: Entries = {} if layout.block is None else blocks[layout.block]
    for dimension, axis in enumerate(layout.axes):
        entries = hidden if axis is Axis.HIDDEN else own.get(axis)
        if entries is not None:
            tensor = tensor.index_select(dimension, entries)
    return tensor


def head_entries(
    block: Attention, kv_heads: tuple[int, ...], queries: tuple[tuple[int, ...], ...]
) -> Entries:
    """Entries for whole heads: groups ``kv_heads``, and of the group in place ``i`` of them the
    query heads ``queries[i]``. The channels inside a head keep their order.
    """
    channels = torch.arange(block.head_dim)
    heads = [
        group * block.queries_per_group + rank
        for group, ranks in zip(kv_heads, queries, strict=True)
        for rank in ranks
    ]
    return {Axis.KV: _rows(kv_heads, channels), Axis.QUERIES: _rows(tuple(heads), channels)}


def _rows(heads: tuple[int, ...], channels: torch.Tensor) -> torch.Tensor:
    starts = torch.tensor(heads) * len(channels)
    return (starts[:, None] + channels).reshape(-1)
