"""Cutting a smaller architecture out of a reordered parent: the first entries of every axis.

Query heads lie in (group, rank, channel) order, so theirs are the first ranks of the first groups.
"""

from __future__ import annotations

from pathlib import Path

import torch

from autocompress.domain.architecture import Architecture, Attention, Block, Mlp, Skip
from autocompress.models.checkpoint import (
    copy_companions,
    empty,
    open_checkpoint,
    write_own_config,
)
from autocompress.models.heterogeneous import HeterogeneousForCausalLM
from autocompress.models.layout import Axis, tensor_layouts
from autocompress.models.tensor_files import write_tensors
from autocompress.weights.selection import Entries, head_entries, select


def slice_reordered(reordered: Path, architecture: Architecture, destination: Path) -> None:
    """Write the part of a reordered parent that ``architecture`` asks for, in our own format.

    Raises:
        ValueError: when the parent does not contain the architecture.
        DataError: when the parent cannot be read.
        DiskFullError: when there is no space left.
    """
    checkpoint = open_checkpoint(reordered)
    hidden, blocks = prefixes(checkpoint.architecture, architecture)
    write_tensors(
        destination,
        (
            (name, select(checkpoint.read(name), layout, hidden, blocks))
            for name, layout in tensor_layouts(architecture).items()
        ),
    )
    write_own_config(destination, architecture, checkpoint.traits, checkpoint.dtype)
    copy_companions(reordered, destination)


def slice_model(
    model: HeterogeneousForCausalLM, architecture: Architecture
) -> HeterogeneousForCausalLM:
    """The same on a model in memory; the result shares no storage with it.

    Raises:
        ValueError: when the model does not contain the architecture.
    """
    hidden, blocks = prefixes(model.architecture, architecture)
    layouts = tensor_layouts(architecture)
    tensors = dict(model.named_parameters())
    result = empty(architecture, model.traits, model.dtype)
    with torch.no_grad():
        for name, parameter in result.named_parameters():
            parameter.copy_(select(tensors[name].cpu(), layouts[name], hidden, blocks))
    return result


def prefixes(
    parent: Architecture, architecture: Architecture
) -> tuple[torch.Tensor, tuple[Entries, ...]]:
    """The entries of the hidden axis, and of the axes of every block, that are kept.

    Raises:
        ValueError: when ``parent`` does not contain ``architecture``.
    """
    if architecture.hidden_size > parent.hidden_size:
        raise ValueError(
            f"hidden_size={architecture.hidden_size} is more than the parent's {parent.hidden_size}"
        )
    same = ("vocab_size", "tied_embeddings")
    if any(getattr(architecture, name) != getattr(parent, name) for name in same):
        raise ValueError("vocabulary and tied embeddings must be the parent's")
    if len(architecture.blocks) != len(parent.blocks):
        raise ValueError(
            f"{len(architecture.blocks)} blocks, the parent has {len(parent.blocks)}; "
            f"a dropped block is a skip in its place"
        )
    blocks = tuple(
        _block_prefix(index, whole, part)
        for index, (whole, part) in enumerate(zip(parent.blocks, architecture.blocks, strict=True))
    )
    return torch.arange(architecture.hidden_size), blocks


def _block_prefix(index: int, whole: Block, part: Block) -> Entries:
    match whole, part:
        case _, Skip():
            return {}
        case Attention(), Attention() if _contains_attention(whole, part):
            ranks = tuple(range(part.queries_per_group))
            return head_entries(whole, tuple(range(part.kv_heads)), (ranks,) * part.kv_heads)
        case Mlp(), Mlp() if _contains_mlp(whole, part):
            return {Axis.NEURONS: torch.arange(part.intermediate_size)}
    raise ValueError(f"block {index}: {whole} does not contain {part}")


def _contains_attention(whole: Attention, part: Attention) -> bool:
    fixed = ("head_dim", "qkv_bias", "output_bias", "qk_norm", "window")
    return (
        part.kv_heads <= whole.kv_heads
        and part.queries_per_group <= whole.queries_per_group
        and all(getattr(part, name) == getattr(whole, name) for name in fixed)
    )


def _contains_mlp(whole: Mlp, part: Mlp) -> bool:
    return (
        part.intermediate_size <= whole.intermediate_size
        and part.gated == whole.gated
        and part.bias == whole.bias
    )
