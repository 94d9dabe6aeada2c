"""Whether a budget can be met at all, and whether the parent meets it already. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from autocompress.contract.errors import InfeasibleError
from autocompress.cost.model import CostModel, smallest_reachable
from autocompress.domain.budget import Budget, Limit, Metric
from autocompress.domain.costs import resolve_bounds
from autocompress.domain.deployment import Workload
from autocompress.domain.space import SearchSpace


@dataclass(frozen=True, kw_only=True, slots=True)
class LimitOutlook:
    """One limit before the search, in base units. ``reachable``: the best value that any
    architecture of the space is predicted to have.
    """

    limit: Limit
    bound: float
    parent: float
    reachable: float

    @property
    def met_by_parent(self) -> bool:
        """Whether the parent, as measured, is inside."""
        return self.limit.utilization(self.parent, self.bound) <= 1

    @property
    def feasible(self) -> bool:
        """Whether some architecture of the space is predicted to be inside."""
        return self.limit.utilization(self.reachable, self.bound) <= 1


def outlook(
    model: CostModel, space: SearchSpace, budget: Budget, workload: Workload
) -> tuple[LimitOutlook, ...]:
    """Every limit of the budget, in order; percent limits are of the measured parent."""
    bounds = resolve_bounds(budget, model.parent_costs)
    return tuple(
        LimitOutlook(
            limit=limit,
            bound=bound,
            parent=model.parent_costs.value(limit),
            reachable=smallest_reachable(model, space, limit, workload),
        )
        for limit, bound in zip(budget.limits, bounds, strict=True)
    )


def require_feasible(limits: tuple[LimitOutlook, ...]) -> None:
    """Stop before any search when no architecture can be inside every limit.

    Raises:
        InfeasibleError: with the smallest reachable value of every limit.
    """
    if all(item.feasible for item in limits):
        return
    lines = [f"  {describe(item)}" for item in limits]
    raise InfeasibleError(
        "no architecture of the search space fits the budget:\n"
        + "\n".join(lines)
        + "\nloosen the limits that cannot be reached, or allow smaller sizes with "
        "search.hiddenSizes and search.intermediateSizes"
    )


def describe(item: LimitOutlook) -> str:
    """One line: the limit, the parent, and what can be reached."""
    unit = item.limit.metric
    best = "largest" if unit is Metric.OUTPUT_THROUGHPUT else "smallest"
    verdict = "" if item.feasible else " - cannot be reached"
    return (
        f"{item.limit.name}: limit {in_user_units(unit, item.bound)}, parent "
        f"{in_user_units(unit, item.parent)}, {best} reachable "
        f"{in_user_units(unit, item.reachable)}{verdict}"
    )


def in_user_units(metric: Metric, value: float) -> str:
    """Milliseconds, MiB, or tokens per second."""
    if metric is Metric.MEMORY:
        return f"{value / 2**20:.0f} MiB"
    if metric is Metric.OUTPUT_THROUGHPUT:
        return f"{value:.1f} tokens/s"
    return f"{value * 1000:.2f} ms"
