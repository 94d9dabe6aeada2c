"""The profiling plan determines every cost."""

from __future__ import annotations

import pytest

from autocompress.cost.space import default_space
from autocompress.cost.table import count_blocks
from autocompress.domain.architecture import Architecture, Attention, Mlp
from autocompress.domain.job import SearchSettings
from autocompress.profile.measure import low_percentile, rounds_within
from autocompress.profile.plan import make_plan, rank_of
from autocompress.profile.serving import requests_within

SMOLLM2 = Architecture(
    hidden_size=576,
    vocab_size=49152,
    tied_embeddings=True,
    blocks=(Attention(query_heads=9, kv_heads=3, head_dim=64), Mlp(intermediate_size=1536)) * 30,
)
SMALL = Architecture(
    hidden_size=64,
    vocab_size=256,
    tied_embeddings=False,
    blocks=(Attention(query_heads=4, kv_heads=2, head_dim=16), Mlp(intermediate_size=128)) * 2,
)


@pytest.mark.parametrize("parent", [SMOLLM2, SMALL], ids=["smollm2", "small"])
def test_full_rank_at_several_depths(parent: Architecture) -> None:
    plan = make_plan(default_space(parent, SearchSettings()), bytes_per_element=2)
    assert rank_of(plan) == len(plan.unknowns)
    assert plan.fitted[0].architecture == parent
    assert len({len(m.architecture.blocks) for m in plan.fitted[1:]}) >= 3
    assert all(m.architecture.blocks[0].kind == "attention" for m in plan.fitted)


def test_hidden_sizes_in_between_are_held_out_only() -> None:
    space = default_space(SMOLLM2, SearchSettings())
    plan = make_plan(space, bytes_per_element=2)
    ends = {min(space.hidden_size), max(space.hidden_size)}
    assert {m.architecture.hidden_size for m in plan.fitted} == ends
    assert {*plan.between} == {*space.hidden_size} - ends != set()
    assert {m.architecture.hidden_size for m in plan.held_out} & {*plan.between}


def test_short_models_do_not_fit_into_a_cache() -> None:
    plan = make_plan(default_space(SMOLLM2, SearchSettings()), bytes_per_element=2)
    assert min(m.architecture.weight_bytes(2) for m in plan.fitted) > 32 << 20


def test_held_out_architectures_are_whole_spread_and_unseen() -> None:
    space = default_space(SMOLLM2, SearchSettings())
    plan = make_plan(space, bytes_per_element=2)
    sizes = [m.architecture.parameters() for m in plan.held_out]
    assert len(sizes) == 4
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < 0.5 * SMOLLM2.parameters()
    seen = {m.architecture for m in plan.fitted}
    for planned in plan.held_out:
        assert planned.architecture in space
        assert len(planned.architecture.blocks) == 60
        assert planned.architecture not in seen
        assert len(count_blocks(planned.architecture.blocks)) > 4


def test_a_space_without_the_parents_sizes_is_planned_without_it() -> None:
    settings = SearchSettings(hidden_sizes=(512, 448), intermediate_sizes=(1024, 512))
    plan = make_plan(default_space(SMOLLM2, settings), bytes_per_element=2)
    assert SMOLLM2 not in {m.architecture for m in plan.fitted}
    assert rank_of(plan) == len(plan.unknowns)


def test_the_same_space_gives_the_same_plan() -> None:
    space = default_space(SMALL, SearchSettings())
    assert make_plan(space, bytes_per_element=2) == make_plan(space, bytes_per_element=2)


def test_repeats_follow_the_time() -> None:
    assert [rounds_within(90, s) for s in (1, 30, 500)] == [4, 3, 2]
    assert requests_within(40, 1.5, 1) == 26
    assert requests_within(40, 100, 1) == 6
    assert requests_within(40, 100, 16) == 32


def test_low_percentile_lies_between_neighbours() -> None:
    assert low_percentile([3.0]) == 3
    assert low_percentile([float(n) for n in range(11)]) == pytest.approx(1)
