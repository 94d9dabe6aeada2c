"""Expected costs, penalties, repair: the pure parts of the search."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from autocompress.contract.errors import InfeasibleError
from autocompress.domain.architecture import Attention
from autocompress.domain.space import AttentionChoices, MlpChoices, SearchSpace
from autocompress.search.finalists import draw
from autocompress.search.grid import CostGrid, Selection, architecture_at
from autocompress.search.penalties import two_sided
from autocompress.search.repair import likeliest, repair
from autocompress.search.router import Annealing, Router
from autocompress.search.uniform import uniform_selections
from autocompress.supernet.choices import corner
from autocompress.testing.models import small_parent


def space_of(layers: int = 2) -> SearchSpace:
    parent = small_parent(layers=layers)
    return SearchSpace(
        parent=parent,
        hidden_size=(64, 48, 32),
        blocks=tuple(
            AttentionChoices(parent=b, kv_heads=(2, 1), queries_per_group=(2, 1), may_skip=i > 0)
            if isinstance(b, Attention)
            else MlpChoices(parent=b, intermediate_size=(96, 64, 32), may_skip=i > 1)
            for i, b in enumerate(parent.blocks)
        ),
    )


SPACE = space_of()


def grid_of(space: SearchSpace, budget: float = 1.0) -> CostGrid:
    """Parameters over ``budget`` times the parent's, and key-value elements over the parent's."""
    parent = space.parent
    counts = tuple(len(list(c.candidates())) for c in space.blocks)
    overhead = np.zeros((2, 3))
    blocks = np.zeros((2, 3, len(counts), max(counts)))
    for h, hidden in enumerate(space.hidden_size):
        overhead[0, h] = (256 * hidden + hidden) / (budget * parent.parameters())
        for b, choices in enumerate(space.blocks):
            for c, candidate in enumerate(choices.candidates()):
                blocks[0, h, b, c] = candidate.parameters(hidden) / (budget * parent.parameters())
                blocks[1, h, b, c] = candidate.kv_elements_per_token() / parent.kv_bytes_per_token(
                    1
                )
    return CostGrid(names=("Size", "Kv"), overhead=overhead, blocks=blocks, counts=counts)


selections = st.builds(
    lambda h, c: Selection(hidden=h, candidates=c),
    st.integers(0, 2),
    st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 4), st.integers(0, 3)),
)


@given(selection=selections)
def test_the_expected_cost_at_a_corner_is_the_cost(selection):
    grid = grid_of(SPACE)
    soft = corner(SPACE, selection.hidden, selection.candidates)
    expected = grid.expected(soft, SPACE).tolist()
    architecture = architecture_at(SPACE, selection)
    assert math.isclose(
        expected[0], architecture.parameters() / SPACE.parent.parameters(), rel_tol=1e-5
    )
    assert np.allclose(expected, grid.utilization(selection), rtol=1e-5)
    assert architecture in SPACE


@given(selection=selections)
def test_nothing_uses_less_than_the_least(selection):
    grid = grid_of(SPACE)
    smallest = SPACE.smallest().parameters() / SPACE.parent.parameters()
    assert math.isclose(grid.least()[0], smallest, rel_tol=1e-9)
    assert np.all(grid.utilization(selection) >= np.array(grid.least()) - 1e-12)


def test_expected_costs_give_gradients_to_every_axis():
    router = Router(SPACE)
    soft = router.sample(1.0, 1.0, torch.Generator().manual_seed(2))
    grid_of(SPACE).expected(soft, SPACE)[0].backward()
    silent = [n for n, p in router.named_parameters() if p.grad is None or not p.grad.any()]
    fixed = [f"axes.{i}.keep" for i in (0, 1)]  # blocks that may not be skipped
    assert silent == fixed


@pytest.mark.parametrize(
    ("used", "expected"),
    [
        ([0.97, 0.5], 0.0),
        ([1.2, 0.5], 3 * 0.2),
        ([1.2, 1.1], 3 * 0.3),
        ([0.8, 0.5], 2 * 0.15),
        ([0.95, 0.1], 0.0),
    ],
)
def test_the_penalty_acts_on_any_excess_and_on_the_binding_limit_alone(used, expected):
    value = two_sided(torch.tensor(used), floor=0.95, over=3.0, under=2.0)
    assert math.isclose(float(value), expected, abs_tol=1e-6)


def random_scores(grid: CostGrid, seed: int):
    generator = np.random.default_rng(seed)
    return generator.normal(size=3), [generator.normal(size=count) for count in grid.counts]


@settings(max_examples=60, deadline=None)
@given(start=selections, seed=st.integers(0, 10**6), budget=st.floats(0.35, 1.2))
def test_repair_ends_inside_all_limits_and_leaves_no_room_for_a_step(start, seed, budget):
    grid = grid_of(SPACE, budget)
    scores = random_scores(grid, seed)
    ceiling = (0.98, 0.9)
    found = repair(grid, scores, start, ceiling)
    used = grid.utilization(found.selection)
    assert np.all(used <= np.array(ceiling) + 1e-9)
    assert architecture_at(SPACE, found.selection) in SPACE
    assert repair(grid, scores, start, ceiling) == found
    again = repair(grid, scores, found.selection, ceiling)
    assert again.selection == found.selection


def test_repair_says_when_nothing_fits():
    grid = grid_of(SPACE, 0.05)
    scores = random_scores(grid, 0)
    with pytest.raises(InfeasibleError):
        repair(grid, scores, likeliest(scores), (1.0, 1.0))


def test_a_larger_space_uses_its_budget_well():
    space = space_of(layers=8)
    grid = grid_of(space, 0.6)
    scores = (np.array([9.0, 0.0, 0.0]), random_scores(grid, 1)[1])
    for found in draw(grid, scores, (1.0, 1.0), samples=4, seed=0):
        assert 0.97 < grid.utilization(found.selection)[0] <= 1.0


def test_finalists_are_drawn_alike_from_alike_seeds():
    grid = grid_of(SPACE, 0.6)
    scores = random_scores(grid, 1)
    first = draw(grid, scores, (1.0, 1.0), samples=6, seed=3)
    assert first == draw(grid, scores, (1.0, 1.0), samples=6, seed=3)
    assert len({found.selection for found in first}) == len(first)


def test_the_router_starts_at_the_parent_and_hardens():
    router = Router(SPACE)
    assert likeliest(router.scores()) == Selection(hidden=0, candidates=(0, 0, 0, 0))
    annealing = Annealing()
    assert annealing.temperature(0.0) == 1.0
    assert math.isclose(annealing.temperature(1.0), 0.05)
    hard = router.sample(annealing.temperature(1.0), 4.0, torch.Generator().manual_seed(0))
    assert float(hard.hidden_size.detach().max()) > 0.99


def test_growing_never_takes_a_smaller_size_because_it_was_measured_as_dearer():
    """A narrow kernel can be slower than a wide one; the table then says so."""
    grid = grid_of(SPACE)
    grid.blocks[0, :, 1, 2] = grid.blocks[0, :, 1, 1] + 0.01  # width 32 dearer than width 64
    hidden, blocks = random_scores(grid, 0)
    blocks[1] = np.array([0.0, 1.0, 5.0])
    start = Selection(hidden=0, candidates=(3, 1, 4, 3))
    room = grid.utilization(start)[0] + 0.015  # for nothing but the dear narrow one
    assert repair(grid, (hidden, blocks), start, (room, 2.0)).selection == start


@settings(max_examples=40, deadline=None)
@given(budget=st.floats(0.2, 1.2))
def test_uniform_architectures_are_the_largest_that_fit(budget):
    grid = grid_of(SPACE, budget)
    ceiling = (0.98, 0.9)
    every = {
        Selection(hidden=h, candidates=(a, m, a, m))
        for h in range(3)
        for a in range(4)
        for m in range(3)
    }
    fitting = {s for s in every if np.all(grid.utilization(s) <= ceiling)}
    found = uniform_selections(SPACE, grid, ceiling)
    assert set(found) <= fitting
    assert bool(found) == bool(fitting)
    sizes = [architecture_at(SPACE, one) for one in found]
    for one in fitting:
        inside = architecture_at(SPACE, one)
        assert any(
            inside.hidden_size <= outside.hidden_size
            and all(map(contains, outside.blocks, inside.blocks))
            for outside in sizes
        )
    assert not any(
        one is not two
        and one.hidden_size <= two.hidden_size
        and all(map(contains, two.blocks, one.blocks))
        for one in sizes
        for two in sizes
    )


def contains(outside, inside):
    if isinstance(outside, Attention):
        return (
            outside.kv_heads >= inside.kv_heads
            and outside.queries_per_group >= inside.queries_per_group
        )
    return outside.intermediate_size >= inside.intermediate_size


def test_other_architectures_are_judged_beside_those_of_the_router():
    grid = grid_of(SPACE, 0.6)
    scores = random_scores(grid, 1)
    others = uniform_selections(SPACE, grid, (1.0, 1.0))
    alone = draw(grid, scores, (1.0, 1.0), samples=2, seed=3)
    drawn = draw(grid, scores, (1.0, 1.0), samples=2, seed=3, others=others)
    assert drawn[: len(alone)] == alone
    added = {found.selection for found in drawn[len(alone) :]}
    grown = {repair(grid, scores, other, (1.0, 1.0)).selection for other in others}
    assert added == grown - {found.selection for found in alone}
    assert added
