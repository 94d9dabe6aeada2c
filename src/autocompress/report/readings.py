"""What a budget gauge shows of each limit, at whatever stage the job is."""

from __future__ import annotations

import re
from dataclasses import dataclass

from autocompress.domain.budget import Limit, Metric
from autocompress.report.data import ReportData


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """One limit with what is known of it, in the metric's base unit.

    ``at_least`` says that the limit is a lower one. ``comfort`` is the value at the least
    utilisation wanted: between it and the bound a budget is well used.
    """

    name: str
    unit: str
    bound: float
    comfort: float
    at_least: bool
    predicted: float | None = None
    measured: float | None = None
    parent: float | None = None
    met: bool | None = None
    utilization: float | None = None


def readings(data: ReportData) -> tuple[Reading, ...]:
    """One reading per limit: from the scorecard, else from the job's budget."""
    if data.scorecard is not None:
        return _judged(data)
    return _expected(data)


def limit_named(name: str) -> Limit | None:
    """The limit that a verdict's name speaks of, with a bound of no meaning."""
    found = re.fullmatch(r"([A-Za-z]+?)(?:P(\d+))?", name)
    if found is None or found[1] not in {metric.value for metric in Metric}:
        return None
    try:
        percentile = int(found[2]) if found[2] else None
        return Limit(metric=Metric(found[1]), percentile=percentile, bound=1.0)
    except ValueError:
        return None


def _judged(data: ReportData) -> tuple[Reading, ...]:
    card = data.scorecard
    assert card is not None
    wanted = card.min_utilization_percent / 100
    found = []
    for verdict in card.limits:
        limit = limit_named(verdict.name)
        at_least = limit is not None and limit.metric is Metric.OUTPUT_THROUGHPUT
        found.append(
            Reading(
                name=verdict.name,
                unit=verdict.unit,
                bound=verdict.bound,
                comfort=_comfort(verdict.bound, wanted, at_least),
                at_least=at_least,
                predicted=verdict.predicted,
                measured=verdict.measured,
                parent=None if limit is None else card.parent_costs.value(limit),
                met=verdict.met,
                utilization=verdict.utilization,
            )
        )
    return tuple(found)


def _expected(data: ReportData) -> tuple[Reading, ...]:
    if data.budget is None:
        return ()
    found = []
    for limit in data.budget.limits:
        parent = None if data.parent_costs is None else data.parent_costs.value(limit)
        if limit.bound is None and parent is None:
            continue
        bound = limit.bound_for(0.0 if parent is None else parent)
        predicted = None if data.predicted_costs is None else data.predicted_costs.value(limit)
        at_least = limit.metric is Metric.OUTPUT_THROUGHPUT
        found.append(
            Reading(
                name=limit.name,
                unit=limit.metric.unit,
                bound=bound,
                comfort=_comfort(bound, data.budget.min_utilization_percent / 100, at_least),
                at_least=at_least,
                predicted=predicted,
                parent=parent,
                utilization=None if not predicted else limit.utilization(predicted, bound),
            )
        )
    return tuple(found)


def _comfort(bound: float, wanted: float, at_least: bool) -> float:
    return bound / wanted if at_least and wanted else bound * wanted
