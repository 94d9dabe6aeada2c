"""What the compression itself took."""

from __future__ import annotations

from autocompress.report.data import ReportData
from autocompress.report.format import duration, percent, quantity
from autocompress.report.view import Section, Table


def effort_section(data: ReportData) -> Section | None:
    """Wall time and peak memory of every finished stage."""
    costs = data.stage_costs
    if not costs:
        return None
    total = sum(cost.wall_seconds for cost in costs)
    peak = max(cost.peak_memory_bytes for cost in costs)
    rows = [
        (
            cost.stage.capitalize(),
            duration(cost.wall_seconds),
            percent(cost.wall_seconds / total if total else 0.0),
            quantity("bytes", cost.peak_memory_bytes),
        )
        for cost in costs
    ]
    rows.append(("All", duration(total), "100 %", quantity("bytes", peak)))
    table = Table(
        caption="Stages",
        header=("Stage", "Wall time", "Share", "Peak memory"),
        rows=tuple(rows),
    )
    return Section(
        ident="effort",
        title="Effort",
        lead="Wall time and peak memory of each stage when it ran; a stage found finished in the "
        "store keeps the figures of that run.",
        blocks=(table,),
    )
