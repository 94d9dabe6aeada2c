"""Activations summed up, gathered by hooks while a model reads text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import cast

import torch
from torch import Tensor, nn

from autocompress.contract.errors import DataError
from autocompress.models.heterogeneous import (
    BlockAttention,
    BlockMlp,
    HeterogeneousBlock,
    HeterogeneousForCausalLM,
)


@dataclass(kw_only=True, slots=True)
class ActivationScores:
    """Float64 sums over tokens: of magnitudes for ``hidden [hidden size]``, over all norms; of
    squared contributions for the rest, by block index: ``neurons [width]``, ``groups [kv_heads]``,
    ``queries [kv_heads, queries per group]``.
    """

    hidden: Tensor
    neurons: dict[int, Tensor] = field(default_factory=dict)
    groups: dict[int, Tensor] = field(default_factory=dict)
    queries: dict[int, Tensor] = field(default_factory=dict)


@contextmanager
def watch(model: HeterogeneousForCausalLM) -> Iterator[ActivationScores]:
    """Score every forward pass inside the context.

    Raises:
        DataError: a block is skipped already; only whole models can be ranked.
    """
    scores = ActivationScores(
        hidden=torch.zeros(model.architecture.hidden_size, dtype=torch.float64, device=model.device)
    )
    with ExitStack() as hooks:
        for index, module in enumerate(model.model.blocks):
            block = cast(HeterogeneousBlock, module)
            if block.attention is not None:
                _watch_heads(block.attention, index, scores, hooks)
            elif block.mlp is not None:
                _watch_neurons(block.mlp, index, scores, hooks)
            else:
                raise DataError(
                    f"block {index} of the parent is skipped; give a parent with all its blocks"
                )
            _watch_norm(block.norm, scores, hooks)
        _watch_norm(model.model.norm, scores, hooks)
        yield scores


def _watch_norm(norm: nn.Module, scores: ActivationScores, hooks: ExitStack) -> None:
    def add(_: nn.Module, __: tuple[Tensor, ...], output: Tensor) -> None:
        scores.hidden += output.float().abs().flatten(0, -2).sum(0).double()

    hooks.callback(norm.register_forward_hook(add).remove)


def _watch_neurons(mlp: BlockMlp, index: int, scores: ActivationScores, hooks: ExitStack) -> None:
    reach = mlp.down_proj.weight.detach().float().square().sum(dim=0).double()
    scores.neurons[index] = torch.zeros_like(reach)

    def add(inner: Tensor) -> None:
        scores.neurons[index] += inner.float().square().flatten(0, -2).sum(0).double() * reach

    _before(mlp.down_proj, add, hooks)


def _watch_heads(
    attention: BlockAttention, index: int, scores: ActivationScores, hooks: ExitStack
) -> None:
    sizes = attention.sizes
    shape = (sizes.kv_heads, sizes.queries_per_group)
    # ||W o||^2 = o' (W' W) o: the Gram matrix of a group's columns is small, its outputs are not.
    columns = attention.o_proj.weight.detach().float().unflatten(1, (sizes.kv_heads, -1))
    gram = torch.einsum("hgi,hgj->gij", columns, columns)
    per_query = gram.unflatten(2, (-1, sizes.head_dim)).unflatten(1, (-1, sizes.head_dim))
    own = per_query.diagonal(dim1=1, dim2=3).permute(0, 3, 1, 2)  # group, query, i, j
    scores.groups[index] = columns.new_zeros(shape[0], dtype=torch.float64)
    scores.queries[index] = columns.new_zeros(shape, dtype=torch.float64)

    def add(inner: Tensor) -> None:
        by_group = inner.float().flatten(0, -2).unflatten(1, (sizes.kv_heads, -1))
        group = torch.einsum("tgi,gij,tgj->tg", by_group, gram, by_group)
        by_query = by_group.unflatten(2, (-1, sizes.head_dim))
        query = torch.einsum("tgqi,gqij,tgqj->tgq", by_query, own, by_query)
        scores.groups[index] += group.sum(0).double()
        scores.queries[index] += query.sum(0).double()

    _before(attention.o_proj, add, hooks)


def _before(module: nn.Module, add: Callable[[Tensor], None], hooks: ExitStack) -> None:
    def hook(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        add(inputs[0])

    hooks.callback(module.register_forward_pre_hook(hook).remove)
