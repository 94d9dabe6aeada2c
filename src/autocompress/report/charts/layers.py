"""What was kept in every layer on every axis, drawn inside the outline of the parent."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from dataclasses import dataclass

from autocompress.report.charts.scale import Logarithmic
from autocompress.report.charts.svg import box, document, label, line
from autocompress.report.format import count, percent
from autocompress.report.kept import Axis, Kept

_GUTTER = 148.0
_NARROW = 600
_ROW_GAP = 22.0
_HEIGHTS = {"KV groups": 40.0, "Query heads": 76.0, "MLP width": 76.0}
_SCORES = 44.0
#: More units than this in a column are drawn as one bar.
_MOST_CELLS = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerPicture:
    """``scores``: per block (layer, kind, score), or nothing; a score is never negative."""

    hidden_parent: int
    hidden_kept: int
    axes: tuple[Axis, ...]
    scores: tuple[tuple[int, str, float], ...] = ()

    @property
    def layers(self) -> int:
        """How many columns there are."""
        return 1 + max((cell.layer for axis in self.axes for cell in axis.cells), default=0)


@dataclass(frozen=True, slots=True)
class _Grid:
    """Where columns stand; on narrow paper the names of rows go above them."""

    width: float
    columns: int

    @property
    def left(self) -> float:
        return 0.0 if self.width < _NARROW else _GUTTER

    @property
    def pitch(self) -> float:
        return (self.width - self.left) / self.columns

    @property
    def bar(self) -> float:
        return min(self.pitch * 0.78, 22.0)

    def x(self, column: int) -> float:
        return self.left + column * self.pitch + (self.pitch - self.bar) / 2


def layer_picture(ident: str, width: int, picture: LayerPicture) -> str:
    """Rows: hidden size, then an axis each; columns: layers from input to output."""
    grid = _Grid(width, picture.layers)
    parts: list[ET.Element] = []
    y = _hidden_row(parts, grid, picture, 0.0)
    for axis in picture.axes:
        y = _axis_row(parts, grid, axis, y)
    if picture.scores:
        y = _score_row(parts, grid, picture.scores, y)
    y = _layer_numbers(parts, grid, y - _ROW_GAP + 6)
    stated = "; ".join(f"{axis.name} {percent(axis.share)} kept" for axis in picture.axes)
    return document(
        ident,
        "What was kept in every layer",
        f"Hidden size {picture.hidden_kept} of {picture.hidden_parent}; {stated}.",
        (width, y),
        parts,
    )


def _heading(parts: list[ET.Element], grid: _Grid, y: float, name: str, detail: str) -> float:
    """Draw the row's name; returns where the row itself begins."""
    if grid.left:
        parts.append(label(0, y + 12, name, "row-name"))
        parts.append(label(0, y + 29, detail, "row-detail"))
        return y
    parts.append(label(0, y + 11, name, "row-name"))
    parts.append(label(grid.width, y + 11, detail, "row-detail", "end"))
    return y + 19


def _hidden_row(parts: list[ET.Element], grid: _Grid, picture: LayerPicture, y: float) -> float:
    detail = f"{picture.hidden_kept} of {picture.hidden_parent}"
    top = _heading(parts, grid, y, "Hidden size", detail)
    whole = grid.width - grid.left - 1
    share = picture.hidden_kept / picture.hidden_parent
    parts.append(box(grid.left + 0.5, top + 0.5, whole, 16, "outline"))
    hover = f"{detail} hidden channels, the same in every layer"
    parts.append(box(grid.left + 0.5, top + 0.5, whole * share, 16, "fill-compressed", hover=hover))
    return top + (34 if grid.left else 17) + _ROW_GAP


def _axis_row(parts: list[ET.Element], grid: _Grid, axis: Axis, y: float) -> float:
    height = _HEIGHTS.get(axis.name, 60.0)
    top = _heading(parts, grid, y, axis.name, f"{percent(axis.share)} kept")
    for cell in axis.cells:
        x = grid.x(cell.layer)
        hover = _spoken(axis, cell)
        if cell.kept is None:
            parts.append(box(x + 0.5, top + 0.5, grid.bar - 1, height - 1, "skipped", hover=hover))
            parts.extend(_cross(x + grid.bar / 2, top + height / 2, min(grid.bar / 2 - 1.5, 4.0)))
        elif cell.parent <= _MOST_CELLS:
            parts.extend(_units(grid, top, height, cell, hover))
        else:
            largest = max(other.parent for other in axis.cells)
            full, kept = height * cell.parent / largest, height * cell.kept / largest
            outline = box(x + 0.5, top + height - full + 0.5, grid.bar - 1, full - 1, "outline")
            parts.append(outline)
            parts.append(
                box(x, top + height - kept, grid.bar, kept, "fill-compressed", hover=hover)
            )
    return top + height + _ROW_GAP


def _units(grid: _Grid, top: float, height: float, cell: Kept, hover: str) -> list[ET.Element]:
    """A stack of one rectangle per unit, kept ones filled from the bottom."""
    x, bar = grid.x(cell.layer), grid.bar
    pitch = height / cell.parent
    drawn = []
    for unit in range(cell.parent):
        y = top + height - (unit + 1) * pitch
        if unit < (cell.kept or 0):
            drawn.append(box(x, y, bar, pitch - 2, "fill-compressed", hover=hover))
        else:
            drawn.append(box(x + 0.5, y + 0.5, bar - 1, pitch - 3, "outline", hover=hover))
    return drawn


def _score_row(
    parts: list[ET.Element], grid: _Grid, scores: tuple[tuple[int, str, float], ...], y: float
) -> float:
    top = _heading(parts, grid, y, "Damage if left out", "log scale")
    positive = [score for _, _, score in scores if score > 0 and math.isfinite(score)]
    if not positive:
        return top + _ROW_GAP
    low, high = min(positive) / 2, max(positive) * 1.01
    scale = Logarithmic(low, high, 0.0, _SCORES)
    half = grid.bar / 2
    for layer, kind, score in scores:
        tall = scale(score) if score > 0 else 0.0
        x = grid.x(layer) + (half if kind == "mlp" else 0.0)
        class_ = "fill-score-mlp" if kind == "mlp" else "fill-score-attention"
        hover = f"Layer {layer}, {'MLP' if kind == 'mlp' else kind}: {score:.2g}"
        parts.append(box(x, top + _SCORES - tall, max(half - 0.5, 1.0), tall, class_, hover=hover))
    parts.append(line(grid.left, top + _SCORES, grid.width, top + _SCORES, "axis"))
    return top + _SCORES + _ROW_GAP


def _layer_numbers(parts: list[ET.Element], grid: _Grid, y: float) -> float:
    step = next((step for step in (1, 2, 5, 10, 20) if step * grid.pitch >= 26), 50)
    for column in range(0, grid.columns, step):
        parts.append(label(grid.x(column) + grid.bar / 2, y + 11, str(column), "tick", "middle"))
    if grid.left:
        parts.append(label(0, y + 11, "Layer", "row-detail"))
        return y + 18
    parts.append(label(0, y + 28, "Layer, from input to output", "row-detail"))
    return y + 34


def _cross(x: float, y: float, reach: float) -> list[ET.Element]:
    return [
        line(x - reach, y - reach, x + reach, y + reach, "cross"),
        line(x - reach, y + reach, x + reach, y - reach, "cross"),
    ]


def _spoken(axis: Axis, cell: Kept) -> str:
    if cell.kept is None:
        return f"Layer {cell.layer}: block skipped"
    return f"Layer {cell.layer}, {axis.name}: {count(cell.kept)} of {count(cell.parent)}"
