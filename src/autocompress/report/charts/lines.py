"""Line plots that share one horizontal axis, one panel under the other."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from typing import Literal

from autocompress.report.charts.scale import Scale, covering, for_losses, from_zero, tick_labels
from autocompress.report.charts.svg import box, document, label, line, node, path

Points = tuple[tuple[float, float], ...]

_LEFT, _RIGHT, _HEAD, _FOOT, _GAP = 46.0, 10.0, 24.0, 40.0, 18.0
_MOST_POINTS = 600


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """One line; ``class_`` gives its colour and dash, ``dots`` marks every point."""

    name: str
    points: Points
    class_: str
    dots: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Panel:
    """One vertical axis; ``band`` is shaded and its upper edge drawn as a limit."""

    title: str
    series: tuple[Series, ...]
    kind: Literal["loss", "from_zero", "around"] = "from_zero"
    band: tuple[float, float] | None = None
    height: float = 150.0


def line_panels(
    ident: str, width: int, panels: tuple[Panel, ...], *, title: str, description: str, x_title: str
) -> str:
    """All panels with a horizontal axis under the last."""
    drawn = [point for panel in panels for series in panel.series for point in series.points]
    x = covering((point[0] for point in drawn), _LEFT, width - _RIGHT, margin=0.0)
    parts: list[ET.Element] = []
    top = 0.0
    for panel in panels:
        top = _panel(parts, panel, x, top) + _GAP
    bottom = top - _GAP
    for tick, words in zip(x.ticks(), tick_labels(x.ticks()), strict=True):
        parts.append(line(x(tick), bottom, x(tick), bottom + 4, "axis"))
        anchor = "end" if x(tick) > width - _RIGHT - 12 else "middle"
        parts.append(label(x(tick), bottom + 17, words, "tick", anchor))
    parts.append(label(width - _RIGHT, bottom + 34, x_title, "axis-title", "end"))
    return document(ident, title, description, (width, bottom + _FOOT), parts)


def smoothed(points: Points, reach: int) -> Points:
    """Centred moving average over up to ``reach`` points on both sides, fewer at the ends.

    The window stays symmetric, so that a trend is neither delayed nor bent at the ends.
    """
    finite = [point for point in points if math.isfinite(point[1])]
    found = []
    for index, (x, _) in enumerate(finite):
        side = min(reach, index, len(finite) - 1 - index)
        window = finite[index - side : index + side + 1]
        found.append((x, sum(y for _, y in window) / len(window)))
    return tuple(found)


def _panel(parts: list[ET.Element], panel: Panel, x: Scale, top: float) -> float:
    begin, bottom = top + _HEAD, top + _HEAD + panel.height
    values = [y for series in panel.series for _, y in series.points if math.isfinite(y)]
    y = _vertical(panel, [*values, *(panel.band or ())], bottom, begin)
    left, right = _LEFT, x(math.inf)
    parts.append(label(0, top + 11, panel.title, "row-name"))
    if panel.band is not None:
        low, high = panel.band
        parts.append(box(left, y(high), right - left, y(low) - y(high), "band"))
    for tick, words in zip(y.ticks(), tick_labels(y.ticks()), strict=True):
        parts.append(line(left, y(tick), right, y(tick), "grid"))
        parts.append(label(left - 8, y(tick) + 4, words, "tick", "end"))
    if panel.band is not None:
        parts.append(line(left, y(panel.band[1]), right, y(panel.band[1]), "limit-mark"))
    for series in panel.series:
        _series(parts, series, x, y)
    parts.append(line(left, bottom, right, bottom, "axis"))
    return bottom


def _vertical(panel: Panel, values: list[float], bottom: float, top: float) -> Scale:
    if panel.kind == "loss":
        return for_losses(values, bottom, top)
    if panel.kind == "around":
        return covering(values, bottom, top, margin=0.08)
    return from_zero(values, bottom, top, margin=0.1)


def _series(parts: list[ET.Element], series: Series, x: Scale, y: Scale) -> None:
    finite = [(a, b) for a, b in series.points if math.isfinite(a) and math.isfinite(b)]
    stride = math.ceil(len(finite) / _MOST_POINTS) or 1
    shown = finite[::stride]
    if finite and shown[-1] != finite[-1]:
        shown.append(finite[-1])
    placed = [(x(a), y(b)) for a, b in shown]
    if len(placed) > 1:
        parts.append(path(placed, f"line {series.class_}"))
    if series.dots or len(placed) == 1:
        for (a, b), (px, py) in zip(shown, placed, strict=True):
            dot = node("circle", cx=px, cy=py, r=3.2, class_=f"dot {series.class_}")
            dot.append(node("title", f"{series.name}: {b:.4g} at {a:,.4g}"))
            parts.append(dot)
