"""Well-formed SVG text: elements are built as a tree, so that nothing can break out of a text."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable

Attribute = str | float | int

#: Characters that XML cannot hold even when escaped.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def node(tag: str, *children: ET.Element | str, **attributes: Attribute) -> ET.Element:
    """An element; ``class_`` is ``class`` and ``_`` in other names is ``-``."""
    made = ET.Element(tag, {_name(name): _text(value) for name, value in attributes.items()})
    for child in children:
        if isinstance(child, str):
            made.text = (made.text or "") + printable(child)
        else:
            made.append(child)
    return made


def label(x: float, y: float, content: str, class_: str = "", anchor: str = "start") -> ET.Element:
    """Text at a point; ``anchor``: start, middle or end."""
    return node("text", content, x=x, y=y, class_=class_, text_anchor=anchor)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> ET.Element:
    """A straight line."""
    return node("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def box(
    x: float, y: float, width: float, height: float, class_: str, *, hover: str = ""
) -> ET.Element:
    """A rectangle; ``hover`` is shown under the pointer."""
    made = node("rect", x=x, y=y, width=max(width, 0.0), height=max(height, 0.0), class_=class_)
    if hover:
        made.append(node("title", hover))
    return made


def path(points: Iterable[tuple[float, float]], class_: str) -> ET.Element:
    """A line through points."""
    steps = " ".join(f"{'L' if i else 'M'}{x:.1f} {y:.1f}" for i, (x, y) in enumerate(points))
    return node("path", d=steps or "M0 0", class_=class_)


def document(
    ident: str,
    title: str,
    description: str,
    size: tuple[float, float],
    parts: Iterable[ET.Element],
) -> str:
    """The ``<svg>`` element with its accessible name and description; ``ident`` is unique.

    ``size``: width and height in pixels.
    """
    width, height = size
    root = node(
        "svg",
        node("title", title, id=f"{ident}-title"),
        node("desc", description, id=f"{ident}-desc"),
        *parts,
        viewBox=f"0 0 {_text(width)} {_text(height)}",
        width=width,
        height=height,
        role="img",
        aria_labelledby=f"{ident}-title {ident}-desc",
        class_="chart",
    )
    return ET.tostring(root, encoding="unicode")


def printable(content: str) -> str:
    """``content`` without characters that a document cannot hold."""
    return _FORBIDDEN.sub("\ufffd", content)


def _name(name: str) -> str:
    return "class" if name == "class_" else name.replace("_", "-")


def _text(value: Attribute) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return printable(str(value))
