"""A store that counts what passes through it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

from autocompress.store.protocol import Store


class CountingStore:
    """Another store, with the bytes of contents read and written so far in ``bytes_moved``.

    Only what was moved whole counts. A local file that a caller reads by its path was not moved.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self.bytes_moved = 0

    @property
    def uri(self) -> str:
        """See ``Store``."""
        return self._store.uri

    def get(self, key: str) -> bytes:
        """See ``Store``."""
        data = self._store.get(key)
        self._count(len(data))
        return data

    def size_bytes(self, key: str) -> int:
        """See ``Store``."""
        return self._store.size_bytes(key)

    def content_tag(self, key: str) -> str:
        """See ``Store``."""
        return self._store.content_tag(key)

    def put(self, key: str, data: bytes) -> None:
        """See ``Store``."""
        self._store.put(key, data)
        self._count(len(data))

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """See ``Store``."""
        wrote = self._store.put_if_absent(key, data)
        self._count(len(data))
        return wrote

    def upload(self, path: Path, key: str) -> None:
        """See ``Store``."""
        size_bytes = path.stat().st_size
        self._store.upload(path, key)
        self._count(size_bytes)

    def download(self, key: str, path: Path) -> None:
        """See ``Store``."""
        self._store.download(key, path)
        self._count(path.stat().st_size)

    def local_path(self, key: str) -> Path | None:
        """See ``Store``."""
        return self._store.local_path(key)

    def keys(self, prefix: str) -> Iterator[str]:
        """See ``Store``."""
        return self._store.keys(prefix)

    def delete(self, key: str) -> None:
        """See ``Store``."""
        self._store.delete(key)

    def _count(self, size_bytes: int) -> None:
        with self._lock:
            self.bytes_moved += size_bytes


def _conforms(store: CountingStore) -> Store:
    return store
