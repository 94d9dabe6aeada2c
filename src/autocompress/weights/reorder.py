"""Reordering a parent by importance, so that the best entries of every axis come first.

The reordered parent computes what the parent computes: hidden channels are permuted alike in all
tensors, KV groups move with their query heads, query heads move inside their group, and neurons
move alike in all projections of their MLP (ModelOpt does the same before slicing).
"""

from __future__ import annotations

from pathlib import Path

import torch

from autocompress.contract.errors import DataError
from autocompress.domain.architecture import Architecture, Attention, Block, Mlp
from autocompress.domain.ranking import AttentionRanking, MlpRanking, Ranking
from autocompress.models.checkpoint import copy_companions, open_checkpoint, write_own_config
from autocompress.models.layout import Axis, tensor_layouts
from autocompress.models.tensor_files import write_tensors
from autocompress.weights.selection import Entries, head_entries, select


def reorder(parent: Path, ranking: Ranking, destination: Path) -> None:
    """Write the reordered parent in our own format, with tokenizer and the like.

    One tensor of the parent is in memory at a time, and one shard of the result.

    Raises:
        DataError: when the parent cannot be read or the ranking is not one of it.
        DiskFullError: when there is no space left.
    """
    checkpoint = open_checkpoint(parent)
    hidden, blocks = orders(checkpoint.architecture, ranking)
    layouts = tensor_layouts(checkpoint.architecture)
    write_tensors(
        destination,
        (
            (name, select(checkpoint.read(name), layout, hidden, blocks))
            for name, layout in layouts.items()
        ),
    )
    write_own_config(destination, checkpoint.architecture, checkpoint.traits, checkpoint.dtype)
    copy_companions(parent, destination)


def orders(
    architecture: Architecture, ranking: Ranking
) -> tuple[torch.Tensor, tuple[Entries, ...]]:
    """The new order of the hidden axis, and of the axes of every block.

    Raises:
        DataError: when the ranking is not one of this architecture.
    """
    _require_permutation("hidden", ranking.hidden, architecture.hidden_size)
    if len(ranking.blocks) != len(architecture.blocks):
        raise DataError(
            f"the ranking has {len(ranking.blocks)} blocks, the parent "
            f"{len(architecture.blocks)}; rank this parent"
        )
    blocks = tuple(
        _block_order(f"block {index}", block, ranks)
        for index, (block, ranks) in enumerate(
            zip(architecture.blocks, ranking.blocks, strict=True)
        )
    )
    return torch.tensor(ranking.hidden), blocks


def _block_order(name: str, block: Block, ranks: AttentionRanking | MlpRanking) -> Entries:
    if isinstance(block, Attention) and isinstance(ranks, AttentionRanking):
        _require_permutation(f"{name} kv_heads", ranks.kv_heads, block.kv_heads)
        if len(ranks.queries) != block.kv_heads:
            raise DataError(f"the ranking of {name} has not one order of queries per KV head")
        for order in ranks.queries:
            _require_permutation(f"{name} queries", order, block.queries_per_group)
        queries = tuple(ranks.queries[group] for group in ranks.kv_heads)
        return head_entries(block, ranks.kv_heads, queries)
    if isinstance(block, Mlp) and isinstance(ranks, MlpRanking):
        _require_permutation(f"{name} neurons", ranks.neurons, block.intermediate_size)
        return {Axis.NEURONS: torch.tensor(ranks.neurons)}
    raise DataError(f"the ranking of {name} is for {ranks.kind}, the parent has {block.kind}")


def _require_permutation(name: str, order: tuple[int, ...], size: int) -> None:
    if sorted(order) != list(range(size)):
        raise DataError(f"the ranking of {name} is not an order of 0 to {size - 1}")
