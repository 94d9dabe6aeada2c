"""The store protocol: a flat map from keys to byte objects.

Guarantees of every implementation, checked by ``autocompress.testing.store``:

* ``put`` and ``upload`` are atomic: a reader sees the whole old object, the whole new one, or none.
* ``put_if_absent`` lets exactly one of several concurrent writers win.
* Keys are what ``check_key`` lets pass, and no key is a folder of another; others are refused with
  ``ValueError``.
* Failures are ``UnavailableError``, ``AccessError`` or ``DiskFullError``; a missing key is
  ``KeyError``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

#: First part of keys that a directory store needs for itself.
RESERVED = ".partial"


def check_key(key: str) -> None:
    """Refuse a key that some store could not hold, or that would leave the store.

    A key is ``/``-separated parts of 1 to 255 bytes, none of them ``.`` or ``..``, without control
    characters or backslashes, at most 900 bytes in all (S3 allows 1,024 with the store's prefix).

    Raises:
        ValueError: naming the key and the rule.
    """
    parts = key.split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"key {key!r}: must be a relative path without empty, . or .. parts")
    if parts[0] == RESERVED:
        raise ValueError(f"key {key!r}: {RESERVED} is reserved for the store itself")
    if any(ord(character) < 32 or character in "\\\x7f" for character in key):
        raise ValueError(f"key {key!r}: control characters and backslashes are not allowed")
    if len(key.encode()) > 900 or any(len(part.encode()) > 255 for part in parts):
        raise ValueError(f"key {key!r}: longer than 900 bytes, or a part longer than 255")


class Store(Protocol):
    """A flat map from keys to byte objects."""

    @property
    def uri(self) -> str:
        """What a user wrote to name this store."""

    def get(self, key: str) -> bytes:
        """The object, or ``KeyError``."""

    def size_bytes(self, key: str) -> int:
        """The length of the object, or ``KeyError``; reads no content."""

    def content_tag(self, key: str) -> str:
        """A text that changes when the object's content does, or ``KeyError``; reads no content.

        Another store may give another tag to the same content.
        """

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
