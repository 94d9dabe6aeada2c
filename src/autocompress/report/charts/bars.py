"""Benchmark accuracies of parent, pruned and compressed model, with standard errors and chance."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import dataclass

from autocompress.domain.records import TaskScore
from autocompress.report.charts.scale import Linear, from_zero
from autocompress.report.charts.svg import box, document, label, line
from autocompress.report.format import fixed

_NARROW, _GUTTER, _BAR, _STEP, _GAP = 600, 148.0, 9.0, 12.0, 18.0


@dataclass(frozen=True, kw_only=True, slots=True)
class _Bar:
    value: float
    error: float
    class_: str
    who: str


def score_bars(ident: str, width: int, tasks: tuple[TaskScore, ...]) -> str:
    """A group of bars per task; accuracies in percent from zero."""
    narrow = width < _NARROW
    left, right = (0.0 if narrow else _GUTTER), width - 44.0
    reach = [
        100 * value
        for task in tasks
        for value in (
            task.parent + task.parent_error,
            task.pruned + task.pruned_error,
            task.compressed + task.compressed_error,
        )
    ]
    x = from_zero([*reach, *(100 * task.chance for task in tasks), 10.0], left, right, margin=0.02)
    groups: list[ET.Element] = []
    y = 4.0
    for task in tasks:
        y = _group(groups, task, x, y, narrow) + _GAP
    bottom = y - _GAP + 6
    grid: list[ET.Element] = []
    for tick in x.ticks():
        grid.append(line(x(tick), 0, x(tick), bottom, "grid"))
        anchor = "start" if narrow and tick == 0 else "middle"
        grid.append(label(x(tick), bottom + 15, f"{fixed(tick, 0)} %", "tick", anchor))
    stated = "; ".join(
        f"{task.name}: parent {fixed(100 * task.parent, 1)} %, "
        f"pruned {fixed(100 * task.pruned, 1)} %, "
        f"compressed {fixed(100 * task.compressed, 1)} %"
        for task in tasks
    )
    return document(ident, "Benchmark accuracy", stated, (width, bottom + 22), [*grid, *groups])


def _group(parts: list[ET.Element], task: TaskScore, x: Linear, y: float, narrow: bool) -> float:
    if narrow:
        parts.append(label(0, y + 10, task.name, "row-name"))
        parts.append(label(x.stop + 44, y + 10, f"{task.items} items", "row-detail", "end"))
        y += 18
    bars = [
        _Bar(value=task.parent, error=task.parent_error, class_="fill-parent", who="parent"),
        _Bar(value=task.pruned, error=task.pruned_error, class_="fill-pruned", who="pruned"),
        _Bar(
            value=task.compressed,
            error=task.compressed_error,
            class_="fill-compressed",
            who="compressed",
        ),
    ]
    tall = len(bars) * _STEP - (_STEP - _BAR)
    if not narrow:
        parts.append(label(0, y + tall / 2 - 1, task.name, "row-name"))
        parts.append(label(0, y + tall / 2 + 15, f"{task.items} items", "row-detail"))
    values: list[ET.Element] = []
    for index, bar in enumerate(bars):
        values.append(_bar(parts, task, bar, x, y + index * _STEP))
    chance = x(100 * task.chance)
    parts.append(line(chance, y - 3, chance, y + tall + 3, "chance"))
    # Last, so that no mark runs through a number.
    parts.extend(values)
    return y + tall


def _bar(parts: list[ET.Element], task: TaskScore, bar: _Bar, x: Linear, y: float) -> ET.Element:
    """Draw the bar and its error; returns its number, to be drawn on top."""
    spread = f"{fixed(100 * bar.value, 1)} ± {fixed(100 * bar.error, 1)}"
    hover = f"{task.name}, {bar.who}: {spread} %"
    end = x(100 * bar.value)
    parts.append(box(x.start, y, end - x.start, _BAR, bar.class_, hover=hover))
    middle = y + _BAR / 2
    if bar.error:
        low, high = x(100 * (bar.value - bar.error)), x(100 * (bar.value + bar.error))
        parts.append(line(low, middle, high, middle, "whisker"))
        parts.append(line(low, middle - 3, low, middle + 3, "whisker"))
        parts.append(line(high, middle - 3, high, middle + 3, "whisker"))
        end = high
    return label(end + 6, y + _BAR - 0.5, fixed(100 * bar.value, 1), "value")
