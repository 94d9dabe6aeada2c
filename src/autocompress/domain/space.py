"""The architectures a search may choose from: choices per axis, for one parent and one target."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from autocompress.domain.architecture import Architecture, Attention, Block, Mlp, Skip


@dataclass(frozen=True, kw_only=True, slots=True)
class AttentionChoices:
    """Choices of one attention block; every pair of the two axes is a candidate."""

    parent: Attention
    kv_heads: tuple[int, ...]
    queries_per_group: tuple[int, ...]
    may_skip: bool
    kind: Literal["attention"] = "attention"

    def candidates(self) -> Iterator[Attention | Skip]:
        """Every size this block may take, largest first, ``Skip`` last."""
        for kv_heads in self.kv_heads:
            for queries in self.queries_per_group:
                yield replace(self.parent, kv_heads=kv_heads, query_heads=kv_heads * queries)
        if self.may_skip:
            yield Skip()


@dataclass(frozen=True, kw_only=True, slots=True)
class MlpChoices:
    """Choices of one MLP block."""

    parent: Mlp
    intermediate_size: tuple[int, ...]
    may_skip: bool
    kind: Literal["mlp"] = "mlp"

    def candidates(self) -> Iterator[Mlp | Skip]:
        """Every size this block may take, largest first, ``Skip`` last."""
        for size in self.intermediate_size:
            yield replace(self.parent, intermediate_size=size)
        if self.may_skip:
            yield Skip()


BlockChoices = AttentionChoices | MlpChoices


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchSpace:
    """Choices of hidden size (global) and, per block, of every axis; all tuples descend."""

    parent: Architecture
    hidden_size: tuple[int, ...]
    blocks: tuple[BlockChoices, ...]

    def __contains__(self, architecture: Architecture) -> bool:
        return (
            architecture.hidden_size in self.hidden_size
            and architecture.vocab_size == self.parent.vocab_size
            and architecture.tied_embeddings == self.parent.tied_embeddings
            and len(architecture.blocks) == len(self.blocks)
            and all(
                block in set(choices.candidates())
                for block, choices in zip(architecture.blocks, self.blocks, strict=True)
            )
        )

    def largest(self) -> Architecture:
        """The parent's own sizes, as far as the space contains them."""
        return self.at(self.hidden_size[0], tuple(next(c.candidates()) for c in self.blocks))

    def smallest(self) -> Architecture:
        """The candidate with the least of everything."""
        return self.at(self.hidden_size[-1], tuple(list(c.candidates())[-1] for c in self.blocks))

    def at(self, hidden_size: int, blocks: tuple[Block, ...]) -> Architecture:
        """An architecture with the parent's vocabulary."""
        return replace(self.parent, hidden_size=hidden_size, blocks=blocks)

    def size(self) -> int:
        """How many architectures the space holds."""
        return len(self.hidden_size) * math.prod(len(list(c.candidates())) for c in self.blocks)
