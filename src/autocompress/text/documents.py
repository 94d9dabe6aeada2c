"""A document of text, and which split it belongs to, decided by its own content."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum

#: Shares of the splits, in the order of ``Split``; training has the rest.
_HELD_OUT_SHARE = 0.1
_CALIBRATION_SHARE = 0.2


class Split(StrEnum):
    """What a document is used for; no document is in two splits."""

    HELD_OUT = "held-out"
    CALIBRATION = "calibration"
    TRAINING = "training"


class TextKind(StrEnum):
    """What kind of text a document is."""

    CODE = "code"
    TECHNICAL = "technical prose"
    GENERAL = "general prose"
    OWN = "own text"


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """One piece of text; ``name`` says where it comes from."""

    kind: TextKind
    name: str
    text: str

    @property
    def size_bytes(self) -> int:
        """Length in UTF-8."""
        return len(self.text.encode())

    @property
    def digest(self) -> str:
        """The content's SHA-256, hexadecimal."""
        return content_digest(self.text)

    @property
    def split(self) -> Split:
        """The split that the content's digest falls into."""
        share = int(self.digest[:12], 16) / 16**12
        if share < _HELD_OUT_SHARE:
            return Split.HELD_OUT
        if share < _HELD_OUT_SHARE + _CALIBRATION_SHARE:
            return Split.CALIBRATION
        return Split.TRAINING


def content_digest(text: str) -> str:
    """SHA-256 of the UTF-8 text, hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def pieces(text: str, piece_bytes: int) -> list[str]:
    """``text`` cut at line ends into pieces of about ``piece_bytes``; joined they are the text.

    A longer line stays whole.
    """
    result: list[str] = []
    lines: list[str] = []
    size_bytes = 0
    for line in text.splitlines(keepends=True):
        line_bytes = len(line.encode())
        if lines and size_bytes + line_bytes > piece_bytes:
            result.append("".join(lines))
            lines, size_bytes = [], 0
        lines.append(line)
        size_bytes += line_bytes
    if lines:
        result.append("".join(lines))
    return result
