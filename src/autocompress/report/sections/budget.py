"""Every limit: bound, predicted, measured, the parent's value."""

from __future__ import annotations

from functools import partial
from typing import Literal

from autocompress.domain.costs import MeasuredCosts, PredictedCosts
from autocompress.report.charts.gauge import gauge
from autocompress.report.data import ReportData
from autocompress.report.format import change, limit_name, percent, quantity, unit_for
from autocompress.report.readings import Reading, readings
from autocompress.report.view import Behind, Block, Gauge, Legend, Section, Swatch, Table, figure


def budget_section(data: ReportData) -> Section | None:
    """A gauge per limit, and all costs of parent and compressed model."""
    found = readings(data)
    if not found:
        return None
    blocks: list[Block] = [Legend(swatches=_legend(found))]
    blocks += [_gauge(index, reading) for index, reading in enumerate(found)]
    blocks.append(Behind(table=_numbers(found)))
    if data.scorecard is not None:
        card = data.scorecard
        blocks.append(_costs(card.parent_costs, card.compressed_costs, card.predicted_costs))
    judged = data.scorecard is not None
    lead = (
        "The verdict rests on measurements in the serving engine, the parent measured in the "
        "same run. The shaded band is a well-used budget: between the least utilisation wanted "
        "and the limit."
        if judged
        else "Not measured yet: limits as the job states them, costs as the cost model predicts."
    )
    return Section(ident="budget", title="Budget", lead=lead, blocks=tuple(blocks))


def _legend(found: tuple[Reading, ...]) -> tuple[Swatch, ...]:
    swatches = [
        Swatch(text="measured", shape="box", class_="fill-compressed"),
        Swatch(text="predicted", shape="diamond", class_="predicted"),
        Swatch(text="limit", shape="line", class_="limit-mark"),
        Swatch(text="parent", shape="line", class_="parent-mark"),
        Swatch(text="well-used budget", shape="box", class_="band"),
    ]
    known = {
        "measured": any(reading.measured is not None for reading in found),
        "predicted": any(reading.predicted is not None for reading in found),
        "parent": any(reading.parent is not None for reading in found),
    }
    return tuple(swatch for swatch in swatches if known.get(swatch.text, True))


def _gauge(index: int, reading: Reading) -> Gauge:
    figures = [(word, quantity(reading.unit, value)) for word, value in _values(reading)]
    if reading.utilization is not None:
        figures.append(("used", percent(reading.utilization, 1)))
    state, tone = _state(reading)
    draw = partial(_draw, reading=reading)
    return Gauge(
        name=limit_name(reading.name),
        state=state,
        tone=tone,
        figures=tuple(figures),
        figure=figure(f"gauge-{index}", draw),
    )


def _draw(ident: str, width: int, reading: Reading) -> str:
    return gauge(ident, width, reading)


def _values(reading: Reading) -> list[tuple[str, float]]:
    pairs = (
        ("measured", reading.measured),
        ("at least" if reading.at_least else "limit", reading.bound),
        ("predicted", reading.predicted),
        ("parent", reading.parent),
    )
    return [(word, value) for word, value in pairs if value is not None]


def _state(reading: Reading) -> tuple[str, Literal["good", "bad", "neutral"]]:
    if reading.met is None:
        return "not measured", "neutral"
    return ("met", "good") if reading.met else ("missed", "bad")


def _numbers(found: tuple[Reading, ...]) -> Table:
    rows = []
    for reading in found:
        unit = unit_for(reading.unit, [value for _, value in _values(reading)])
        cells = (reading.bound, reading.predicted, reading.measured, reading.parent)
        rows.append(
            (
                limit_name(reading.name),
                *("–" if value is None else unit.text(value) for value in cells),
                {None: "–", True: "yes", False: "no"}[reading.met],
                "–" if reading.utilization is None else percent(reading.utilization, 1),
            )
        )
    return Table(
        caption="Limits",
        header=("Limit", "Bound", "Predicted", "Measured", "Parent", "Met", "Used"),
        rows=tuple(rows),
    )


def _costs(parent: MeasuredCosts, compressed: MeasuredCosts, predicted: PredictedCosts) -> Table:
    rows = []
    for name, before, after, guess in (
        (
            "Time to first token",
            parent.time_to_first_token,
            compressed.time_to_first_token,
            predicted.time_to_first_token,
        ),
        (
            "Time per output token",
            parent.time_per_output_token,
            compressed.time_per_output_token,
            predicted.time_per_output_token,
        ),
        (
            "End-to-end latency",
            parent.end_to_end_latency,
            compressed.end_to_end_latency,
            predicted.end_to_end_latency,
        ),
    ):
        for percentile in (50, 95):
            values = (before.at(percentile), after.at(percentile), guess.at(percentile))
            rows.append(_cost_row(f"{name}, P{percentile}", "s", values))
    rows.append(
        _cost_row(
            "Output throughput",
            "tokens/s",
            (
                parent.output_tokens_per_second,
                compressed.output_tokens_per_second,
                predicted.output_tokens_per_second,
            ),
        )
    )
    memory = (parent.memory_bytes, compressed.memory_bytes, predicted.memory_bytes)
    rows.append(_cost_row("Memory", "bytes", memory))
    return Table(
        caption="All costs of the workload",
        header=("", "Parent", "Compressed", "Change", "Predicted"),
        rows=tuple(rows),
    )


def _cost_row(name: str, base: str, values: tuple[float, float, float]) -> tuple[str, ...]:
    unit = unit_for(base, values)
    parent, compressed, predicted = values
    return (
        name,
        unit.text(parent),
        unit.text(compressed),
        change(parent, compressed),
        unit.text(predicted),
    )
