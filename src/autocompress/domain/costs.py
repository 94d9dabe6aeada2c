"""What a model costs to serve: predicted and measured are different types with the same fields."""

from __future__ import annotations

from dataclasses import dataclass

from autocompress.domain.budget import Budget, Limit, Metric


@dataclass(frozen=True, kw_only=True, slots=True)
class Percentiles:
    """A distribution of times in seconds."""

    mean: float
    p50: float
    p90: float
    p95: float
    p99: float

    def at(self, percentile: int) -> float:
        """The value at 50, 90, 95 or 99."""
        return {50: self.p50, 90: self.p90, 95: self.p95, 99: self.p99}[percentile]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Costs:
    time_to_first_token: Percentiles
    time_per_output_token: Percentiles
    end_to_end_latency: Percentiles
    output_tokens_per_second: float
    memory_bytes: int

    def value(self, limit: Limit) -> float:
        """The figure that ``limit`` speaks of, in base units."""
        if limit.metric is Metric.MEMORY:
            return float(self.memory_bytes)
        if limit.metric is Metric.OUTPUT_THROUGHPUT:
            return self.output_tokens_per_second
        times = {
            Metric.TIME_TO_FIRST_TOKEN: self.time_to_first_token,
            Metric.TIME_PER_OUTPUT_TOKEN: self.time_per_output_token,
            Metric.END_TO_END_LATENCY: self.end_to_end_latency,
        }[limit.metric]
        assert limit.percentile is not None
        return times.at(limit.percentile)


@dataclass(frozen=True, kw_only=True, slots=True)
class PredictedCosts(_Costs):
    """Costs as the cost model expects them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredCosts(_Costs):
    """Costs as measured in the serving engine on the target."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LimitVerdict:
    """One limit judged by measurement. Values in the metric's base unit."""

    name: str
    unit: str
    bound: float
    predicted: float
    measured: float
    met: bool
    utilization: float


def resolve_bounds(budget: Budget, parent: MeasuredCosts) -> tuple[float, ...]:
    """The bound of every limit in base units, in the budget's order."""
    return tuple(limit.bound_for(parent.value(limit)) for limit in budget.limits)


def judge(
    budget: Budget, predicted: PredictedCosts, measured: MeasuredCosts, parent: MeasuredCosts
) -> tuple[LimitVerdict, ...]:
    """Judge a *measured* model; percent limits are taken of the parent measured beside it."""
    verdicts = []
    for limit, bound in zip(budget.limits, resolve_bounds(budget, parent), strict=True):
        value = measured.value(limit)
        used = limit.utilization(value, bound)
        verdicts.append(
            LimitVerdict(
                name=limit.name,
                unit=limit.metric.unit,
                bound=bound,
                predicted=predicted.value(limit),
                measured=value,
                met=used <= 1,
                utilization=used,
            )
        )
    return tuple(verdicts)
