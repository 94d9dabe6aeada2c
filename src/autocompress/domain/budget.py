"""The limits a compressed model must stay inside, absolute or relative to its parent."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

PERCENTILES = (50, 90, 95, 99)


class Metric(StrEnum):
    """What can be limited."""

    TIME_TO_FIRST_TOKEN = "TimeToFirstToken"
    TIME_PER_OUTPUT_TOKEN = "TimePerOutputToken"
    END_TO_END_LATENCY = "EndToEndLatency"
    OUTPUT_THROUGHPUT = "OutputThroughput"
    MEMORY = "Memory"

    @property
    def unit(self) -> str:
        """Base unit of a value of this metric."""
        if self is Metric.OUTPUT_THROUGHPUT:
            return "tokens/s"
        return "bytes" if self is Metric.MEMORY else "s"

    @property
    def is_latency(self) -> bool:
        """Whether the metric is a time with percentiles."""
        return self not in (Metric.OUTPUT_THROUGHPUT, Metric.MEMORY)


@dataclass(frozen=True, kw_only=True, slots=True)
class Limit:
    """One limit: exactly one of ``bound`` (base units) and ``percent_of_parent``.

    It is an upper limit for times and memory, a lower one for throughput.
    """

    metric: Metric
    percentile: int | None = None
    bound: float | None = None
    percent_of_parent: int | None = None

    def __post_init__(self) -> None:
        if (self.bound is None) == (self.percent_of_parent is None):
            raise ValueError(f"{self.name}: give either a bound or a percentage of the parent")
        if self.metric.is_latency and self.percentile not in PERCENTILES:
            raise ValueError(f"{self.name}: percentile must be one of {PERCENTILES}")
        if not self.metric.is_latency and self.percentile is not None:
            raise ValueError(f"{self.metric}: has no percentiles")

    @property
    def name(self) -> str:
        """``TimePerOutputTokenP95``, ``OutputThroughput``, ``Memory``."""
        return f"{self.metric}P{self.percentile}" if self.percentile else str(self.metric)

    def bound_for(self, parent_value: float) -> float:
        """The bound in base units, given what the parent measured."""
        if self.bound is not None:
            return self.bound
        assert self.percent_of_parent is not None
        return parent_value * self.percent_of_parent / 100

    def utilization(self, value: float, bound: float) -> float:
        """The share of the limit that ``value`` uses; at most 1 when the limit is met."""
        return bound / value if self.metric is Metric.OUTPUT_THROUGHPUT else value / bound


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """One or more limits, and the least utilisation wanted of the one that binds."""

    limits: tuple[Limit, ...]
    min_utilization_percent: int = 90

    def __post_init__(self) -> None:
        if not self.limits:
            raise ValueError("a budget needs at least one limit")
