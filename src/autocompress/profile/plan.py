"""Which models are measured so that the cost of every block can be told from them. Pure.

A short model holds one attention and one MLP candidate, each several times, at one hidden size.
Depths and the shares of attention differ between models: so the overhead can be told from the
blocks, and attention from MLP. Of many random designs the best conditioned one is taken, and used
for the smallest and the largest hidden size; costs in between are interpolated. The parent itself
is measured too, as an anchor at full depth.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from autocompress.cost.fit import Unknown, design_matrix
from autocompress.cost.table import count_blocks
from autocompress.domain.architecture import Architecture, Attention, Block, Mlp
from autocompress.domain.space import SearchSpace

#: Depths of short models as shares of the parent's blocks.
DEPTH_SHARES = (0.2, 0.33, 0.47)

#: Shares of attention among the blocks of a short model.
ATTENTION_SHARES = (0.25, 0.5, 0.75)

#: Models per hidden size beyond the number of its unknowns.
EXTRA_MODELS = 2

#: Short models are made at least this large, or as deep as the parent: a smaller one would stay in
#: the processor's cache between two steps, and look faster than the same blocks in a whole model.
LEAST_WEIGHT_BYTES = 48 << 20

_DESIGNS = 60
Value = TypeVar("Value")

_HELD_OUT = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedModel:
    """A model to measure, by a name of its own."""

    name: str
    architecture: Architecture


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfilingPlan:
    """``fitted`` determine the ``unknowns``; ``held_out`` only judge them. The parent is the first
    of ``fitted``. ``between``: the hidden sizes that no fitted model has.
    """

    fitted: tuple[PlannedModel, ...]
    held_out: tuple[PlannedModel, ...]
    unknowns: tuple[Unknown, ...]
    between: tuple[int, ...]

    @property
    def models(self) -> tuple[PlannedModel, ...]:
        """All that are measured."""
        return self.fitted + self.held_out


@dataclass(frozen=True, slots=True)
class _Recipe:
    attention: Attention
    mlp: Mlp | None
    attention_count: int
    mlp_count: int


def make_plan(space: SearchSpace, *, bytes_per_element: int, seed: int = 7) -> ProfilingPlan:
    """The plan for ``space``; its design matrix has full column rank."""
    attention, mlps = _candidates(space)
    recipes = _best_recipes(space, attention, mlps, bytes_per_element, random.Random(seed))
    measured = sorted({min(space.hidden_size), max(space.hidden_size)}, reverse=True)
    fitted = (
        PlannedModel(name="parent", architecture=space.parent),
        *(
            PlannedModel(
                name=f"short-{hidden}-{index:02}",
                architecture=space.at(hidden, _blocks(recipe)),
            )
            for hidden in measured
            for index, recipe in enumerate(recipes)
        ),
    )
    unknowns = tuple(
        Unknown(hidden_size=hidden, block=block)
        for hidden in measured
        for block in (None, *attention, *mlps)
    )
    plan = ProfilingPlan(
        fitted=_with_known_blocks(fitted, unknowns),
        held_out=_held_out(space, random.Random(seed + 1)),
        unknowns=unknowns,
        between=tuple(size for size in space.hidden_size if size not in measured),
    )
    rank = rank_of(plan)
    assert rank == len(unknowns), f"design of rank {rank} for {len(unknowns)} unknowns"
    return plan


def rank_of(plan: ProfilingPlan) -> int:
    """Rank of the design matrix: how many unknowns the fitted models determine."""
    models = [
        (m.architecture.hidden_size, count_blocks(m.architecture.blocks)) for m in plan.fitted
    ]
    return int(np.linalg.matrix_rank(design_matrix(models, plan.unknowns)))


def _with_known_blocks(
    fitted: tuple[PlannedModel, ...], unknowns: tuple[Unknown, ...]
) -> tuple[PlannedModel, ...]:
    """Without the parent where a restricted space has not the parent's own sizes."""
    parent = fitted[0].architecture
    known = {unknown.block for unknown in unknowns if unknown.hidden_size == parent.hidden_size}
    return fitted if {*parent.blocks} <= known else fitted[1:]


def _candidates(space: SearchSpace) -> tuple[tuple[Attention, ...], tuple[Mlp, ...]]:
    """Every block that some place of the space may take, the parent's own included."""
    found: dict[Block, None] = dict.fromkeys(
        candidate for choices in space.blocks for candidate in choices.candidates()
    )
    if space.parent.hidden_size in space.hidden_size:
        # Serving overhead is what the parent measures beyond the sum of its own blocks.
        found |= dict.fromkeys(space.parent.blocks)
    return (
        tuple(b for b in found if isinstance(b, Attention)),
        tuple(b for b in found if isinstance(b, Mlp)),
    )


def _best_recipes(
    space: SearchSpace,
    attention: Sequence[Attention],
    mlps: Sequence[Mlp],
    bytes_per_element: int,
    generator: random.Random,
) -> tuple[_Recipe, ...]:
    unknowns = [Unknown(hidden_size=1, block=block) for block in (None, *attention, *mlps)]

    def conditioning(recipes: tuple[_Recipe, ...]) -> float:
        models = [(1, count_blocks(_blocks(recipe))) for recipe in recipes]
        matrix = design_matrix(models, unknowns)
        norms = np.linalg.norm(matrix, axis=0)
        if not norms.all():
            return 0.0
        return float(np.linalg.svd(matrix / norms, compute_uv=False)[-1])

    designs = (
        _recipes(space, attention, mlps, bytes_per_element, generator) for _ in range(_DESIGNS)
    )
    return max(designs, key=conditioning)


def _recipes(
    space: SearchSpace,
    attention: Sequence[Attention],
    mlps: Sequence[Mlp],
    bytes_per_element: int,
    generator: random.Random,
) -> tuple[_Recipe, ...]:
    count = 1 + len(attention) + len(mlps) + EXTRA_MODELS
    parent_depth = len(space.parent.blocks)
    # At least three different depths, however small the parent.
    depths = [
        max(2 + place, round(share * parent_depth)) for place, share in enumerate(DEPTH_SHARES)
    ]
    # The engine wants at least one attention block; a parent without MLPs gets none.
    choices: Sequence[Mlp | None] = mlps or [None]
    recipes = []
    for some_attention, some_mlp, depth, share in zip(
        _spread(attention, count, generator),
        _spread(choices, count, generator),
        _spread(depths, count, generator),
        _spread(ATTENTION_SHARES, count, generator),
        strict=True,
    ):
        attention_count = min(max(1, round(depth * share)), depth - 1) if some_mlp else depth
        recipe = _Recipe(some_attention, some_mlp, attention_count, depth - attention_count)
        recipes.append(_enlarged(recipe, space, bytes_per_element))
    return tuple(recipes)


def _spread(values: Sequence[Value], count: int, generator: random.Random) -> list[Value]:
    """``count`` of ``values`` in random order, each as often as the others."""
    drawn = [values[index % len(values)] for index in range(count)]
    generator.shuffle(drawn)
    return drawn


def _enlarged(recipe: _Recipe, space: SearchSpace, bytes_per_element: int) -> _Recipe:
    """Deeper, in the same proportion, until the model is too large for caches or as deep as the
    parent.
    """
    larger = recipe
    if space.parent.weight_bytes(bytes_per_element) < LEAST_WEIGHT_BYTES:
        return recipe  # whole models stay in the cache as well
    while (
        space.at(min(space.hidden_size), _blocks(larger)).weight_bytes(bytes_per_element)
        < LEAST_WEIGHT_BYTES
    ):
        doubled = _Recipe(
            larger.attention, larger.mlp, 2 * larger.attention_count, 2 * larger.mlp_count
        )
        if doubled.attention_count + doubled.mlp_count > len(space.parent.blocks):
            break
        larger = doubled
    return larger


def _blocks(recipe: _Recipe) -> tuple[Block, ...]:
    """Attention first, MLPs spread evenly among the attention blocks."""
    blocks: list[Block] = []
    given = 0
    for index in range(recipe.attention_count):
        blocks.append(recipe.attention)
        due = recipe.mlp_count * (index + 1) // recipe.attention_count
        if recipe.mlp is not None:
            blocks += [recipe.mlp] * (due - given)
        given = due
    return tuple(blocks)


def _held_out(space: SearchSpace, generator: random.Random) -> tuple[PlannedModel, ...]:
    """Whole architectures from large to small, each block drawn near the wanted size."""
    models = []
    for number in range(_HELD_OUT):
        wanted = (number + 0.5) / _HELD_OUT
        blocks: list[Block] = []
        for choices in space.blocks:
            candidates = list(choices.candidates())
            place = wanted * (len(candidates) - 1) + generator.uniform(-2.5, 2.5)
            blocks.append(candidates[min(max(round(place), 0), len(candidates) - 1)])
        hidden = space.hidden_size[number % len(space.hidden_size)]
        models.append(
            PlannedModel(name=f"held-out-{number}", architecture=space.at(hidden, tuple(blocks)))
        )
    return tuple(models)
