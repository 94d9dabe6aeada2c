"""``spec.budget``: the limits, each absolute or in percent of what the parent measures."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from autocompress.api.v1alpha1.fields import (
    Give,
    Memory,
    Milliseconds,
    Percent,
    PercentOfParent,
    Spec,
    refuse,
)
from autocompress.domain.budget import Budget, Limit, Metric

Percentile = Annotated[Literal[50, 90, 95, 99], Give("50, 90, 95 or 99")]
TokensPerSecond = Annotated[
    int, Field(ge=1, le=1_000_000_000), Give("a whole number of tokens per second, such as 1800")
]


class LatencyMetric(StrEnum):
    """Times that can be limited."""

    TIME_TO_FIRST_TOKEN = "TimeToFirstToken"
    TIME_PER_OUTPUT_TOKEN = "TimePerOutputToken"
    END_TO_END_LATENCY = "EndToEndLatency"


class MemoryLimit(Spec):
    """The most memory that the engine may need in all."""

    max: Memory | None = None
    max_percent_of_parent: PercentOfParent | None = None

    @model_validator(mode="after")
    def _one_bound(self) -> Self:
        _exactly_one("max", self.max, "maxPercentOfParent", self.max_percent_of_parent)
        return self

    def to_domain(self) -> Limit:
        """In bytes."""
        return Limit(
            metric=Metric.MEMORY,
            bound=None if self.max is None else float(self.max),
            percent_of_parent=self.max_percent_of_parent,
        )


class LatencyLimit(Spec):
    """The most time at one percentile."""

    metric: LatencyMetric
    percentile: Percentile
    max_milliseconds: Milliseconds | None = None
    max_percent_of_parent: PercentOfParent | None = None

    @model_validator(mode="after")
    def _one_bound(self) -> Self:
        _exactly_one(
            "maxMilliseconds",
            self.max_milliseconds,
            "maxPercentOfParent",
            self.max_percent_of_parent,
        )
        return self

    def to_domain(self) -> Limit:
        """In seconds."""
        return Limit(
            metric=Metric(self.metric.value),
            percentile=self.percentile,
            bound=None if self.max_milliseconds is None else self.max_milliseconds / 1000,
            percent_of_parent=self.max_percent_of_parent,
        )


class ThroughputLimit(Spec):
    """The least output of the whole deployment."""

    min_tokens_per_second: TokensPerSecond | None = None
    min_percent_of_parent: PercentOfParent | None = None

    @model_validator(mode="after")
    def _one_bound(self) -> Self:
        _exactly_one(
            "minTokensPerSecond",
            self.min_tokens_per_second,
            "minPercentOfParent",
            self.min_percent_of_parent,
        )
        return self

    def to_domain(self) -> Limit:
        """In tokens per second."""
        per_second = self.min_tokens_per_second
        return Limit(
            metric=Metric.OUTPUT_THROUGHPUT,
            bound=None if per_second is None else float(per_second),
            percent_of_parent=self.min_percent_of_parent,
        )


class BudgetSpec(Spec):
    """One or more limits, and how much of the tightest should be used."""

    memory: MemoryLimit | None = None
    latency: Annotated[tuple[LatencyLimit, ...], Field(max_length=12)] = ()
    throughput: ThroughputLimit | None = None
    min_utilization_percent: Percent = 90

    @model_validator(mode="after")
    def _limits(self) -> Self:
        if self.memory is None and self.throughput is None and not self.latency:
            refuse({"": "has no limit; give at least one of memory, latency and throughput"})
        first: dict[tuple[LatencyMetric, int], int] = {}
        faults = {}
        for index, limit in enumerate(self.latency):
            earlier = first.setdefault((limit.metric, limit.percentile), index)
            if earlier != index:
                faults[f"latency.{index}"] = (
                    f"limits {limit.metric} at percentile {limit.percentile} again, as "
                    f"latency[{earlier}] does; keep one of them"
                )
        refuse(faults)
        return self

    def to_domain(self) -> Budget:
        """Times first, then throughput, then memory."""
        limits = [limit.to_domain() for limit in self.latency]
        limits += [limit.to_domain() for limit in (self.throughput, self.memory) if limit]
        return Budget(limits=tuple(limits), min_utilization_percent=self.min_utilization_percent)


def _exactly_one(one: str, one_value: int | None, other: str, other_value: int | None) -> None:
    if one_value is None and other_value is None:
        refuse({"": f"has no bound; give {one} or {other}"})
    if one_value is not None and other_value is not None:
        refuse({other: f"is given beside {one}; keep one of them"})
