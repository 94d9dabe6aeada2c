"""What is said about a budget before the search."""

from __future__ import annotations

import pytest

from autocompress.contract.errors import ExitCode, InfeasibleError
from autocompress.cost.space import default_space
from autocompress.domain.architecture import Architecture, Attention, Mlp
from autocompress.domain.budget import Budget, Limit, Metric
from autocompress.domain.deployment import Workload
from autocompress.domain.job import SearchSettings
from autocompress.profile.feasibility import outlook, require_feasible
from autocompress.testing.costs import made_up_model

PARENT = Architecture(
    hidden_size=256,
    vocab_size=1024,
    tied_embeddings=True,
    blocks=(Attention(query_heads=6, kv_heads=2, head_dim=32), Mlp(intermediate_size=512)) * 3,
)
SPACE = default_space(PARENT, SearchSettings())
WORKLOAD = Workload(
    prompt_tokens=64, output_tokens=16, concurrency=2, context_tokens=80, max_sequences=2
)
MODEL = made_up_model(SPACE, WORKLOAD)


def look(*limits: Limit):
    return outlook(MODEL, SPACE, Budget(limits=limits), WORKLOAD)


def test_impossible_limits_are_told_with_what_is_reachable() -> None:
    limits = look(
        Limit(metric=Metric.TIME_PER_OUTPUT_TOKEN, percentile=50, bound=1e-5),
        Limit(metric=Metric.OUTPUT_THROUGHPUT, bound=1e9),
        Limit(metric=Metric.MEMORY, percent_of_parent=100),
    )
    with pytest.raises(InfeasibleError) as caught:
        require_feasible(limits)
    assert caught.value.exit_code is ExitCode.INFEASIBLE
    time, throughput, memory = str(caught.value).splitlines()[1:4]
    assert "TimePerOutputTokenP50: limit 0.01 ms, parent 20.00 ms, smallest reachable" in time
    assert time.endswith("cannot be reached")
    assert f"largest reachable {limits[1].reachable:.1f} tokens/s - cannot" in throughput
    assert "limit 2048 MiB, parent 2048 MiB" in memory
    assert "cannot" not in memory


def test_percent_limits_are_of_the_measured_parent() -> None:
    (item,) = look(Limit(metric=Metric.TIME_PER_OUTPUT_TOKEN, percentile=95, percent_of_parent=98))
    assert item.bound == pytest.approx(0.98 * MODEL.parent_costs.time_per_output_token.p95)
    assert item.feasible
    assert not item.met_by_parent
    require_feasible((item,))


def test_a_parent_inside_every_limit_is_recognised() -> None:
    limits = look(
        Limit(metric=Metric.MEMORY, bound=3 << 30), Limit(metric=Metric.OUTPUT_THROUGHPUT, bound=1)
    )
    assert all(item.met_by_parent for item in limits)
