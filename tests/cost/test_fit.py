"""The fit finds the costs that made the times."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from autocompress.cost.errors import rank_correlation
from autocompress.cost.fit import Observation, Shape, Unknown, fit_buffers, fit_times
from autocompress.cost.space import default_space
from autocompress.cost.table import count_blocks
from autocompress.domain.architecture import Architecture, Attention, Mlp
from autocompress.domain.job import SearchSettings
from autocompress.profile.plan import make_plan

PARENT = Architecture(
    hidden_size=576,
    vocab_size=49152,
    tied_embeddings=True,
    blocks=(Attention(query_heads=9, kv_heads=3, head_dim=64), Mlp(intermediate_size=1536)) * 10,
)
PLAN = make_plan(default_space(PARENT, SearchSettings()), bytes_per_element=2)
SHAPE = Shape(vocab_size=49152, tokens=1, batch=1, context_tokens=160)


def true_cost(unknown: Unknown, generator: random.Random, wobble: float) -> float:
    """Proportional to weights, with a deviation for every block of its own."""
    size = (
        unknown.hidden_size * 49152
        if unknown.block is None
        else unknown.block.parameters(unknown.hidden_size)
    )
    return (2e-5 + 2e-10 * size) * (1 + generator.uniform(-wobble, wobble))


def observe(
    costs: dict[Unknown, float], noise: float, generator: random.Random
) -> list[Observation]:
    found = []
    for planned in PLAN.fitted:
        hidden = planned.architecture.hidden_size
        blocks = count_blocks(planned.architecture.blocks)
        seconds = costs[Unknown(hidden_size=hidden, block=None)] + sum(
            item.count * costs[Unknown(hidden_size=hidden, block=item.block)] for item in blocks
        )
        found.append(
            Observation(
                hidden_size=hidden,
                blocks=blocks,
                seconds=seconds * (1 + generator.gauss(0, noise)),
                error_seconds=seconds * max(noise, 1e-3),
            )
        )
    return found


def test_costs_without_noise_are_recovered() -> None:
    generator = random.Random(3)
    costs = {unknown: true_cost(unknown, generator, 0) for unknown in PLAN.unknowns}
    estimate = fit_times(observe(costs, 0, generator), PLAN.unknowns, SHAPE)
    for unknown, seconds in zip(PLAN.unknowns, estimate.seconds, strict=True):
        assert seconds == pytest.approx(costs[unknown], rel=0.005), unknown


@pytest.mark.parametrize("seed", range(4))
def test_noise_averages_out_in_whole_architectures(seed: int) -> None:
    """Blocks deviate 5 % from any law, times 2 %: single small blocks suffer, sums do not."""
    generator = random.Random(seed)
    costs = {unknown: true_cost(unknown, generator, 0.05) for unknown in PLAN.unknowns}
    estimate = fit_times(observe(costs, 0.02, generator), PLAN.unknowns, SHAPE)
    fitted = dict(zip(PLAN.unknowns, estimate.seconds, strict=True))
    errors = [abs(fitted[unknown] / costs[unknown] - 1) for unknown in PLAN.unknowns]
    assert sum(errors) / len(errors) < 0.15
    for planned in PLAN.held_out:
        hidden = planned.architecture.hidden_size
        if hidden in PLAN.between:
            continue
        held = [Unknown(hidden_size=hidden, block=None)] + [
            Unknown(hidden_size=hidden, block=block)
            for block in planned.architecture.blocks
            if block.kind != "skip"
        ]
        total = sum(costs[unknown] for unknown in held)
        assert sum(fitted[unknown] for unknown in held) == pytest.approx(total, rel=0.05)


def test_a_disturbed_measurement_does_not_pull_the_others() -> None:
    generator = random.Random(5)
    costs = {unknown: true_cost(unknown, generator, 0) for unknown in PLAN.unknowns}
    observations = observe(costs, 0.01, generator)
    for place in (3, 20, 33):
        disturbed = observations[place]
        observations[place] = replace(disturbed, seconds=1.5 * disturbed.seconds)
    estimate = fit_times(observations, PLAN.unknowns, SHAPE)
    fitted = dict(zip(PLAN.unknowns, estimate.seconds, strict=True))
    for hidden in (576, 448):
        held = [Unknown(hidden_size=hidden, block=None)] + [
            Unknown(hidden_size=hidden, block=block) for block in PARENT.blocks
        ]
        total = sum(costs[unknown] for unknown in held)
        assert sum(fitted[unknown] for unknown in held) == pytest.approx(total, rel=0.04)


def test_buffers_are_recovered() -> None:
    models = [
        (m.architecture.hidden_size, count_blocks(m.architecture.blocks)) for m in PLAN.fitted
    ]
    made = [
        500_000_000
        + 4 * 49152 * hidden
        + sum(
            i.count * 2 * i.block.parameters(hidden) for i in blocks if i.block.kind == "attention"
        )
        for hidden, blocks in models
    ]
    buffers = fit_buffers(models, made, PLAN.unknowns, vocab_size=49152, bytes_per_element=4)
    for unknown, value in zip(PLAN.unknowns, buffers, strict=True):
        if unknown.block is None:
            assert value == pytest.approx(500_000_000 + 4 * 49152 * unknown.hidden_size, rel=1e-3)
        elif unknown.block.kind == "mlp":
            assert value == pytest.approx(0, abs=1e4)


def test_ranks_ignore_scale() -> None:
    assert rank_correlation([1, 2, 3, 4], [10, 20, 30, 900]) == pytest.approx(1)
    assert rank_correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert rank_correlation([1.0], [2.0]) == 1
