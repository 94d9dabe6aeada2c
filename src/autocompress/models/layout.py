"""Canonical tensors: the name, the axes and the shape of each, for any architecture.

This table is all that loading, reordering, slicing and export know about tensors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from autocompress.domain.architecture import Architecture, Attention, Block, Mlp


class Axis(StrEnum):
    """What the entries along one dimension of a tensor are.

    ``QUERIES`` is laid out (group, rank in group, channel) and ``KV`` (group, channel).
    ``CHANNELS`` are those inside a head, which rotary positions pin to their places.
    """

    VOCABULARY = "vocabulary"
    HIDDEN = "hidden"
    QUERIES = "queries"
    KV = "kv"
    CHANNELS = "channels"
    NEURONS = "neurons"


@dataclass(frozen=True, kw_only=True, slots=True)
class TensorLayout:
    """One tensor: its axes, and the residual block that it belongs to (``None``: to none)."""

    axes: tuple[Axis, ...]
    block: int | None = None


def tensor_layouts(architecture: Architecture) -> Mapping[str, TensorLayout]:
    """Every stored tensor by canonical name, in the order of computation."""
    layouts = {"model.embed_tokens.weight": TensorLayout(axes=(Axis.VOCABULARY, Axis.HIDDEN))}
    for index, block in enumerate(architecture.blocks):
        for name, axes in _block_axes(block):
            layouts[f"model.blocks.{index}.{name}"] = TensorLayout(axes=axes, block=index)
    layouts["model.norm.weight"] = TensorLayout(axes=(Axis.HIDDEN,))
    if not architecture.tied_embeddings:
        layouts["lm_head.weight"] = TensorLayout(axes=(Axis.VOCABULARY, Axis.HIDDEN))
    return layouts


def tensor_shapes(architecture: Architecture) -> Mapping[str, tuple[int, ...]]:
    """The shape of every stored tensor; their elements sum to ``architecture.parameters()``."""
    return {
        name: tuple(axis_size(architecture, layout.block, axis) for axis in layout.axes)
        for name, layout in tensor_layouts(architecture).items()
    }


def axis_size(architecture: Architecture, block: int | None, axis: Axis) -> int:
    """Entries along an axis; ``block`` says whose, for the axes that a block has.

    Raises:
        ValueError: when the block has no such axis.
    """
    if axis is Axis.VOCABULARY:
        return architecture.vocab_size
    if axis is Axis.HIDDEN:
        return architecture.hidden_size
    owner = None if block is None else architecture.blocks[block]
    if isinstance(owner, Attention):
        match axis:
            case Axis.QUERIES:
                return owner.query_heads * owner.head_dim
            case Axis.KV:
                return owner.kv_heads * owner.head_dim
            case Axis.CHANNELS:
                return owner.head_dim
    if isinstance(owner, Mlp) and axis is Axis.NEURONS:
        return owner.intermediate_size
    raise ValueError(f"block {block} has no axis {axis}")


def _block_axes(block: Block) -> Iterator[tuple[str, tuple[Axis, ...]]]:
    match block:
        case Attention():
            inward = {"q": Axis.QUERIES, "k": Axis.KV, "v": Axis.KV}
            yield "norm.weight", (Axis.HIDDEN,)
            for name, axis in inward.items():
                yield f"attention.{name}_proj.weight", (axis, Axis.HIDDEN)
                if block.qkv_bias:
                    yield f"attention.{name}_proj.bias", (axis,)
            yield "attention.o_proj.weight", (Axis.HIDDEN, Axis.QUERIES)
            if block.output_bias:
                yield "attention.o_proj.bias", (Axis.HIDDEN,)
            if block.qk_norm:
                yield "attention.q_norm.weight", (Axis.CHANNELS,)
                yield "attention.k_norm.weight", (Axis.CHANNELS,)
        case Mlp():
            yield "norm.weight", (Axis.HIDDEN,)
            for name in ("gate", "up") if block.gated else ("up",):
                yield f"mlp.{name}_proj.weight", (Axis.NEURONS, Axis.HIDDEN)
                if block.bias:
                    yield f"mlp.{name}_proj.bias", (Axis.NEURONS,)
            yield "mlp.down_proj.weight", (Axis.HIDDEN, Axis.NEURONS)
            if block.bias:
                yield "mlp.down_proj.bias", (Axis.HIDDEN,)
