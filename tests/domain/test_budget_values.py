import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocompress.domain.budget import Budget, Limit, Metric
from autocompress.domain.costs import (
    MeasuredCosts,
    Percentiles,
    PredictedCosts,
    judge,
    resolve_bounds,
)

positive = st.floats(1e-6, 1e12)


def costs(kind, *, tpot=0.02, throughput=100.0, memory=1000):
    times = Percentiles(mean=tpot, p50=tpot, p90=2 * tpot, p95=3 * tpot, p99=4 * tpot)
    return kind(
        time_to_first_token=times,
        time_per_output_token=times,
        end_to_end_latency=times,
        output_tokens_per_second=throughput,
        memory_bytes=memory,
    )


TPOT = Limit(metric=Metric.TIME_PER_OUTPUT_TOKEN, percentile=95, bound=0.05)
THROUGHPUT = Limit(metric=Metric.OUTPUT_THROUGHPUT, percent_of_parent=140)
MEMORY = Limit(metric=Metric.MEMORY, percent_of_parent=70)


def test_percent_limits_are_taken_of_the_parent():
    parent = costs(MeasuredCosts, throughput=200.0, memory=1000)
    budget = Budget(limits=(TPOT, THROUGHPUT, MEMORY))
    assert resolve_bounds(budget, parent) == (0.05, 280.0, 700.0)


def test_a_measured_model_is_judged_limit_by_limit():
    verdicts = judge(
        Budget(limits=(TPOT, THROUGHPUT, MEMORY)),
        predicted=costs(PredictedCosts, tpot=0.01, throughput=300.0, memory=600),
        measured=costs(MeasuredCosts, tpot=0.016, throughput=270.0, memory=700),
        parent=costs(MeasuredCosts, throughput=200.0, memory=1000),
    )
    assert [verdict.name for verdict in verdicts] == [
        "TimePerOutputTokenP95",
        "OutputThroughput",
        "Memory",
    ]
    assert [verdict.unit for verdict in verdicts] == ["s", "tokens/s", "bytes"]
    assert [verdict.met for verdict in verdicts] == [True, False, True]
    assert [verdict.utilization for verdict in verdicts] == pytest.approx([0.96, 280 / 270, 1.0])
    assert [verdict.predicted for verdict in verdicts] == pytest.approx([0.03, 300.0, 600.0])


@given(positive, positive)
def test_a_limit_is_met_exactly_when_no_more_than_all_of_it_is_used(value, bound):
    assert (MEMORY.utilization(value, bound) <= 1) == (value <= bound)
    assert (TPOT.utilization(value, bound) <= 1) == (value <= bound)
    assert (THROUGHPUT.utilization(value, bound) <= 1) == (value >= bound)


@pytest.mark.parametrize("percentile", [50, 90, 95, 99])
@pytest.mark.parametrize("metric", [metric for metric in Metric if metric.is_latency])
def test_every_latency_percentile_is_read_from_its_own_field(metric, percentile):
    limit = Limit(metric=metric, percentile=percentile, bound=1.0)
    factor = {50: 1, 90: 2, 95: 3, 99: 4}[percentile]
    assert costs(MeasuredCosts, tpot=0.5).value(limit) == 0.5 * factor
    assert limit.name == f"{metric}P{percentile}"


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Limit(metric=Metric.MEMORY), "either a bound or a percentage"),
        (
            lambda: Limit(metric=Metric.MEMORY, bound=1.0, percent_of_parent=1),
            "either a bound or a percentage",
        ),
        (lambda: Limit(metric=Metric.MEMORY, percentile=50, bound=1.0), "has no percentiles"),
        (lambda: Limit(metric=Metric.TIME_TO_FIRST_TOKEN, bound=1.0), "percentile must be one of"),
        (
            lambda: Limit(metric=Metric.TIME_TO_FIRST_TOKEN, percentile=51, bound=1.0),
            "percentile must be one of",
        ),
        (lambda: Budget(limits=()), "at least one limit"),
    ],
)
def test_a_limit_that_means_nothing_is_refused(make, told):
    with pytest.raises(ValueError, match=told):
        make()
