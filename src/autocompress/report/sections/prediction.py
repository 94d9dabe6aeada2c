"""How far the cost model is from architectures that it never saw."""

from __future__ import annotations

from functools import partial

from autocompress.domain.records import HeldOutReport
from autocompress.report.charts.scatter import scatter
from autocompress.report.data import ReportData
from autocompress.report.format import count, fixed, percent, unit_for
from autocompress.report.view import Row, Section, Swatch, Table, figure

Points = tuple[tuple[float, float], ...]

#: Three plots and their gaps fill one wide plot.
_THIRD = 256


def prediction_section(data: ReportData) -> Section | None:
    """Prefill, decode and memory: predicted against measured."""
    report = data.held_out
    if report is None:
        return None
    plots = (
        ("prefill", "Prefill step", "s", report.prefill, _prefill(report)),
        ("decode", "Decode step", "s", report.decode, _decode(report)),
        ("memory", "Memory", "bytes", report.memory, _memory(report)),
    )
    figures = tuple(
        figure(
            f"held-out-{name}",
            partial(_draw, title=title, unit=unit, points=points),
            wide=_THIRD,
            caption=f"median error {percent(error.median, 1)}, worst {percent(error.worst, 1)}",
        )
        for name, title, unit, error, points in plots
        if points
    )
    lead = (
        f"{len(report.points)} whole architectures took no part in the fit. They were predicted "
        "from their blocks’ costs, then built and measured in the serving engine. Decode steps "
        f"are ranked with a correlation of {fixed(report.decode_rank_correlation, 3)}."
    )
    legend = (
        Swatch(text="one architecture", shape="dot", class_="point"),
        Swatch(text="exact", shape="line", class_="diagonal"),
        Swatch(text="within 10 %", shape="box", class_="cone"),
    )
    return Section(
        ident="prediction",
        title="Cost model",
        lead=lead,
        blocks=(Row(figures=figures, legend=legend, table=_table(report)),),
    )


def _draw(ident: str, width: int, title: str, unit: str, points: Points) -> str:
    return scatter(ident, width, title, unit, points)


def _prefill(report: HeldOutReport) -> Points:
    return tuple((p.measured_prefill_seconds, p.predicted_prefill_seconds) for p in report.points)


def _decode(report: HeldOutReport) -> Points:
    return tuple((p.measured_decode_seconds, p.predicted_decode_seconds) for p in report.points)


def _memory(report: HeldOutReport) -> Points:
    return tuple((p.measured_memory_bytes, p.predicted_memory_bytes) for p in report.points)


def _table(report: HeldOutReport) -> Table:
    columns = (("s", _prefill(report)), ("s", _decode(report)), ("bytes", _memory(report)))
    units = [unit_for(base, (value for pair in pairs for value in pair)) for base, pairs in columns]
    rows = []
    for index, point in enumerate(report.points):
        row = [count(point.architecture.parameters())]
        for unit, (_, pairs) in zip(units, columns, strict=True):
            measured, predicted = pairs[index]
            row += [unit.number(measured), unit.number(predicted)]
        rows.append(tuple(row))
    prefill, decode, memory = (unit.symbol for unit in units)
    return Table(
        caption="Held-out architectures",
        header=(
            "Parameters",
            f"Prefill, measured ({prefill})",
            f"predicted ({prefill})",
            f"Decode, measured ({decode})",
            f"predicted ({decode})",
            f"Memory, measured ({memory})",
            f"predicted ({memory})",
        ),
        rows=tuple(rows),
    )
