"""Where a parent's weights and licence come from, when they came out of a Python package."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass
from pathlib import Path

from autocompress.contract import documents
from autocompress.sources.convert import ORIGIN_FILE

_LICENCES = ("LICENSE", "LICENSE.txt", "LICENSE.md", "NOTICE")


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """What ``sources.convert`` leaves beside weights that it de-quantised from a GGUF file."""

    distribution: str
    version: str
    file: str
    note: str


def read_origin(parent_dir: Path) -> Origin | None:
    """The origin of de-quantised weights; ``None`` when the weights are as published.

    Raises:
        DataError: the record is damaged.
    """
    path = parent_dir / ORIGIN_FILE
    if not path.is_file():
        return None
    return documents.load(Origin, path.read_bytes(), name=str(path))


def licence_files(parent_dir: Path, origin: Origin | None) -> tuple[Path, ...]:
    """The parent's licence files: in its folder, else in the package that it was shipped in."""
    own = tuple(parent_dir / name for name in _LICENCES if (parent_dir / name).is_file())
    if own or origin is None:
        return own
    try:
        listed = importlib.metadata.files(origin.distribution) or []
    except importlib.metadata.PackageNotFoundError:
        return ()
    found = (Path(str(entry.locate())) for entry in listed if entry.name in _LICENCES)
    return tuple(path for path in found if path.is_file())
