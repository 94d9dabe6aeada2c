"""What a compressed architecture kept of its parent, axis by axis and layer by layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from autocompress.domain.architecture import Architecture, Attention, Block, Mlp, Skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """One block on one axis; ``kept`` is None where the block is skipped."""

    layer: int
    block: int
    parent: int
    kept: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Axis:
    """One axis over all layers that have it."""

    name: str
    cells: tuple[Kept, ...]

    @property
    def share(self) -> float:
        """Kept over all, a skipped block counting as nothing."""
        total = sum(cell.parent for cell in self.cells)
        return sum(cell.kept or 0 for cell in self.cells) / total if total else 1.0


def layer_numbers(parent: Architecture) -> tuple[int, ...]:
    """The layer of every block.

    A layer is an attention block, an MLP block, or the first with the second behind it.
    """
    numbers: list[int] = []
    layer, seen = -1, set[str]()
    for block in parent.blocks:
        if layer < 0 or block.kind in seen or isinstance(block, Attention):
            layer, seen = layer + 1, set()
        seen.add(block.kind)
        numbers.append(layer)
    return tuple(numbers)


def kept_axes(parent: Architecture, compressed: Architecture) -> tuple[Axis, ...]:
    """Every per-layer axis that the parent has: KV groups, query heads, MLP width."""
    found = (
        _axis("KV groups", parent, compressed, _kv_groups),
        _axis("Query heads", parent, compressed, _query_heads),
        _axis("MLP width", parent, compressed, _mlp_width),
    )
    return tuple(axis for axis in found if axis.cells)


def skipped(parent: Architecture, compressed: Architecture) -> tuple[int, int]:
    """How many attention and how many MLP blocks were dropped."""
    pairs = tuple(zip(parent.blocks, compressed.blocks, strict=False))
    return (
        sum(isinstance(a, Attention) and isinstance(b, Skip) for a, b in pairs),
        sum(isinstance(a, Mlp) and isinstance(b, Skip) for a, b in pairs),
    )


def _axis(
    name: str,
    parent: Architecture,
    compressed: Architecture,
    size: Callable[[Block], int | None],
) -> Axis:
    cells = []
    layers = layer_numbers(parent)
    for index, (before, after) in enumerate(zip(parent.blocks, compressed.blocks, strict=False)):
        full = size(before)
        if full is not None:
            cells.append(Kept(layer=layers[index], block=index, parent=full, kept=size(after)))
    return Axis(name=name, cells=tuple(cells))


def _kv_groups(block: Block) -> int | None:
    return block.kv_heads if isinstance(block, Attention) else None


def _query_heads(block: Block) -> int | None:
    return block.query_heads if isinstance(block, Attention) else None


def _mlp_width(block: Block) -> int | None:
    return block.intermediate_size if isinstance(block, Mlp) else None
