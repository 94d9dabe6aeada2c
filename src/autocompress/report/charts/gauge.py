"""One budget limit as a bar against its bound."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from autocompress.report.charts.scale import from_zero, tick_labels
from autocompress.report.charts.svg import box, document, label, line, node
from autocompress.report.format import limit_name, unit_for
from autocompress.report.readings import Reading

_TOP, _BAR, _BOTTOM = 20.0, 22.0, 24.0
_ANCHORS = ("middle", "end", "start")
#: An upper estimate of a letter's width, and the least distance of two words, in pixels.
_CHARACTER, _APART = 7.6, 6.0


def gauge(ident: str, width: int, reading: Reading) -> str:
    """Bar: measured; diamond: predicted; solid line: limit; dashed: parent; band: well used."""
    known = (reading.bound, reading.comfort, reading.predicted, reading.measured, reading.parent)
    values = [value for value in known if value is not None]
    unit = unit_for(reading.unit, values)
    scale = from_zero((value / unit.factor for value in values), 1.0, width - 1.0)

    def at(value: float) -> float:
        return scale(value / unit.factor)

    bottom = _TOP + _BAR
    edges = sorted((at(reading.bound), at(reading.comfort)))
    parts = [
        box(1, _TOP, width - 2.0, _BAR, "track"),
        box(edges[0], _TOP, edges[1] - edges[0], _BAR, "band", hover="well-used budget"),
    ]
    for tick, words in zip(scale.ticks(), tick_labels(scale.ticks()), strict=True):
        parts.append(line(scale(tick), bottom, scale(tick), bottom + 4, "axis"))
        anchor = "start" if scale(tick) < 12 else "end" if scale(tick) > width - 24 else "middle"
        parts.append(label(scale(tick), bottom + 17, words, "tick", anchor))
    if reading.measured is not None:
        class_ = "fill-compressed" if reading.met is not False else "fill-missed"
        hover = f"measured {unit.text(reading.measured)}"
        parts.append(box(1, _TOP + 6, at(reading.measured) - 1, _BAR - 12, class_, hover=hover))
    if reading.parent is not None:
        x = at(reading.parent)
        parts.append(line(x, _TOP - 4, x, bottom, "parent-mark"))
    limit = at(reading.bound)
    parts.append(line(limit, _TOP - 4, limit, bottom + 4, "limit-mark"))
    if reading.predicted is not None:
        parts.append(_diamond(at(reading.predicted), _TOP + _BAR / 2, unit.text(reading.predicted)))
    parent = None if reading.parent is None else at(reading.parent)
    parts.extend(_marks(reading, limit, parent, width))
    name = limit_name(reading.name)
    stated = ", ".join(
        f"{word} {unit.text(value)}"
        for word, value in (
            ("limit", reading.bound),
            ("measured", reading.measured),
            ("predicted", reading.predicted),
            ("parent", reading.parent),
        )
        if value is not None
    )
    return document(ident, name, stated, (width, bottom + _BOTTOM), parts)


def _marks(reading: Reading, limit: float, parent: float | None, width: int) -> list[ET.Element]:
    """The words over the two marks, each anchored so that they keep apart and on the paper."""
    words = "at least" if reading.at_least else "limit"
    for limit_anchor in _ANCHORS:
        here = _extent(limit, words, limit_anchor)
        if here[0] < 0 or here[1] > width:
            continue
        over_limit = label(limit, 11, words, "mark-limit", limit_anchor)
        if parent is None:
            return [over_limit]
        for parent_anchor in _ANCHORS:
            there = _extent(parent, "parent", parent_anchor)
            apart = there[0] > here[1] + _APART or here[0] > there[1] + _APART
            if apart and there[0] >= 0 and there[1] <= width:
                return [over_limit, label(parent, 11, "parent", "mark-parent", parent_anchor)]
    # Both marks at one place near an edge: the limit is named, the legend tells the other.
    return [label(limit, 11, words, "mark-limit", "end" if limit > width / 2 else "start")]


def _extent(x: float, words: str, anchor: str) -> tuple[float, float]:
    wide = _CHARACTER * len(words)
    left = {"start": x, "middle": x - wide / 2, "end": x - wide}[anchor]
    return left, left + wide


def _diamond(x: float, y: float, value: str) -> ET.Element:
    around = ((0, -6), (6, 0), (0, 6), (-6, 0))
    corners = " ".join(f"{x + right:.1f},{y + down:.1f}" for right, down in around)
    made = node("polygon", points=corners, class_="predicted")
    made.append(node("title", f"predicted {value}"))
    return made
