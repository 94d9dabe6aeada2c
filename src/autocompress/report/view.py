"""What the page template draws: plain values, all text still unescaped, all SVG already safe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

#: Widths in CSS pixels of every plot's two drawings; the style sheet shows the one that fits.
WIDE, NARROW = 800, 342


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Rows of text; the first column names the row, the others are numbers unless ``words``."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: bool = False
    kind: Literal["table"] = "table"


@dataclass(frozen=True, kw_only=True, slots=True)
class Swatch:
    """One entry of a legend: ``shape`` names a drawing of the template, ``class_`` its colour."""

    text: str
    shape: Literal["box", "cross", "line", "diamond", "dot"]
    class_: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """One plot drawn twice, with its legend, its caption and the numbers behind it."""

    wide: Markup
    narrow: Markup
    legend: tuple[Swatch, ...] = ()
    caption: str = ""
    table: Table | None = None
    kind: Literal["figure"] = "figure"


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """Small figures side by side, with one table behind them all."""

    figures: tuple[Figure, ...]
    legend: tuple[Swatch, ...] = ()
    table: Table | None = None
    kind: Literal["row"] = "row"


@dataclass(frozen=True, kw_only=True, slots=True)
class Gauge:
    """A limit: its name, its state in words, its figures and its bar."""

    name: str
    state: str
    tone: Literal["good", "bad", "neutral"]
    figures: tuple[tuple[str, str], ...]
    figure: Figure
    kind: Literal["gauge"] = "gauge"


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """Names and values, in reading order; ``code`` sets the values in a fixed pitch."""

    title: str
    entries: tuple[tuple[str, str], ...]
    code: bool = False
    kind: Literal["facts"] = "facts"


@dataclass(frozen=True, kw_only=True, slots=True)
class Code:
    """Text to copy."""

    title: str
    text: str
    kind: Literal["code"] = "code"


@dataclass(frozen=True, kw_only=True, slots=True)
class Bullets:
    """A short list of sentences."""

    title: str
    items: tuple[str, ...]
    kind: Literal["bullets"] = "bullets"


@dataclass(frozen=True, kw_only=True, slots=True)
class Behind:
    """The numbers of the plots above, folded away."""

    table: Table
    kind: Literal["behind"] = "behind"


@dataclass(frozen=True, kw_only=True, slots=True)
class Legend:
    """A legend for all that follows in its section."""

    swatches: tuple[Swatch, ...]
    kind: Literal["legend"] = "legend"


Block = Table | Figure | Row | Gauge | Facts | Code | Bullets | Legend | Behind


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """A heading, a sentence or two that say how to read what follows, and the blocks."""

    ident: str
    title: str
    lead: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Tile:
    """One key figure: what it is, and what it was."""

    name: str
    value: str
    unit: str
    detail: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Headline:
    """The verdict as one sentence, with what it rests on."""

    verdict: str
    explanation: str
    badges: tuple[tuple[str, Literal["good", "bad", "neutral"]], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """The whole report."""

    title: str
    setting: tuple[str, ...]
    headline: Headline
    tiles: tuple[Tile, ...]
    sections: tuple[Section, ...]
    written_by: str


def figure(
    ident: str,
    draw: Callable[[str, int], str],
    *,
    wide: int = WIDE,
    legend: tuple[Swatch, ...] = (),
    caption: str = "",
    table: Table | None = None,
) -> Figure:
    """Draw a plot for both widths; ``draw`` takes a unique id and a width in pixels."""
    return Figure(
        wide=Markup(draw(f"{ident}-wide", wide)),  # built as an XML tree
        narrow=Markup(draw(f"{ident}-narrow", NARROW)),
        legend=legend,
        caption=caption,
        table=table,
    )
