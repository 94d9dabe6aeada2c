"""Predicted against measured: a square plot with its diagonal and a cone of ten percent."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from autocompress.report.charts.scale import covering, tick_labels
from autocompress.report.charts.svg import box, document, label, line, node
from autocompress.report.format import unit_for

_LEFT, _RIGHT, _TOP, _FOOT = 46.0, 10.0, 24.0, 42.0


def scatter(
    ident: str, width: int, title: str, base_unit: str, points: tuple[tuple[float, float], ...]
) -> str:
    """``points`` are (measured, predicted) in ``base_unit``; both axes have one scale."""
    unit = unit_for(base_unit, (value for point in points for value in point))
    shown = [(a / unit.factor, b / unit.factor) for a, b in points]
    values = [value for point in shown for value in point]
    right, side = width - _RIGHT, width - _RIGHT - _LEFT
    bottom = _TOP + min(side, 300.0)
    x = covering(values, _LEFT, right, margin=0.12)
    y = covering(values, bottom, _TOP, margin=0.12)
    parts: list[ET.Element] = [
        label(0, 11, f"{title} ({unit.symbol})", "row-name"),
        box(_LEFT, _TOP, side, bottom - _TOP, "plot"),
    ]
    low, high = x.low, x.high
    cone = ((low, low * 1.1), (high, high * 1.1), (high, high * 0.9), (low, low * 0.9))
    corners = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in _clipped(cone, low, high))
    parts.append(node("polygon", points=corners, class_="cone"))
    parts.append(line(x(low), y(low), x(high), y(high), "diagonal"))
    ticks = list(x.ticks())[:: 2 if len(x.ticks()) > 5 else 1]
    for tick, words in zip(ticks, tick_labels(tuple(ticks)), strict=True):
        parts.append(line(x(tick), bottom, x(tick), bottom + 4, "axis"))
        parts.append(label(x(tick), bottom + 17, words, "tick", "middle"))
        parts.append(line(_LEFT - 4, y(tick), _LEFT, y(tick), "axis"))
        parts.append(label(_LEFT - 8, y(tick) + 4, words, "tick", "end"))
    for measured, predicted in shown:
        dot = node("circle", cx=x(measured), cy=y(predicted), r=4.5, class_="point")
        error = abs(predicted - measured) / measured if measured else 0.0
        words = f"measured {measured:.4g}, predicted {predicted:.4g} {unit.symbol}"
        dot.append(node("title", f"{words}, off by {100 * error:.1f} %"))
        parts.append(dot)
    parts.append(label(right, bottom + 35, "measured", "axis-title", "end"))
    parts.append(label(_LEFT + 8, _TOP + 16, "predicted", "axis-title"))
    description = f"{len(points)} architectures; points on the diagonal are predicted exactly."
    return document(
        ident, f"{title}: predicted against measured", description, (width, bottom + _FOOT), parts
    )


def _clipped(
    corners: tuple[tuple[float, float], ...], low: float, high: float
) -> list[tuple[float, float]]:
    """The cone cut off where it leaves the square, so that its edges keep their slope."""
    (_, start_up), (_, end_up), (_, end_down), (_, start_down) = corners
    cut = [(low, start_up)]
    if end_up > high:
        cut += [(high / 1.1, high), (high, high)]
    else:
        cut.append((high, end_up))
    cut.append((high, end_down))
    if start_down < low:
        cut += [(low / 0.9, low), (low, low)]
    else:
        cut.append((low, start_down))
    return cut
