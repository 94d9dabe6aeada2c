"""The store protocol: a flat map from keys to byte objects.

Guarantees of every implementation, checked by ``autocompress.testing.store``:

* ``put`` and ``upload`` are atomic: a reader sees the whole old object, the whole new one, or none.
* ``put_if_absent`` lets exactly one of several concurrent writers win.
* Keys are ``/``-separated relative paths without empty, ``.`` or ``..`` parts; others are refused.
* Failures are ``UnavailableError``, ``AccessError`` or ``DiskFullError``; a missing key is ``KeyError``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol


class Store(Protocol):
    """A flat map from keys to byte objects."""

    @property
    def uri(self) -> str:
        """What a user wrote to name this store."""

    def get(self, key: str) -> bytes:
        """The object, or ``KeyError``."""

    def put(self, key: str, data: bytes) -> None:
        """Write or replace."""

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Write unless the key exists; says whether this call wrote."""

    def upload(self, path: Path, key: str) -> None:
        """Write a local file, streamed."""

    def download(self, key: str, path: Path) -> None:
        """Write the object to a local file, streamed, in place only when complete."""

    def local_path(self, key: str) -> Path | None:
        """The object's own file where the store is a directory, to be read only; else ``None``."""

    def keys(self, prefix: str) -> Iterator[str]:
        """Every key under ``prefix`` (a folder, ending in ``/``), in order."""

    def delete(self, key: str) -> None:
        """Remove; a missing key is not an error."""
