"""A store in a directory: a key is a file, written beside and renamed into place."""

from __future__ import annotations

import errno
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from autocompress.contract.errors import AccessError, DiskFullError, UnavailableError
from autocompress.store.protocol import RESERVED, check_key

#: A file that nobody has written to for so long is no longer being written.
_ABANDONED_SECONDS = 24 * 3600


class DirectoryStore:
    """Objects are read-only files below ``root``, which the first write makes.

    What a killed writer leaves is below ``root/.partial``, never seen as an object, and removed by
    a later writer.
    """

    def __init__(self, root: Path, *, uri: str | None = None) -> None:
        self.root = root.absolute()
        self._uri = uri or str(root)

    @property
    def uri(self) -> str:
        """See ``Store``."""
        return self._uri

    def get(self, key: str) -> bytes:
        """See ``Store``."""
        with _reading(self._path(key), key):
            return self._path(key).read_bytes()

    def size_bytes(self, key: str) -> int:
        """See ``Store``."""
        path = self._path(key)
        with _reading(path, key):
            if not path.is_file():
                raise FileNotFoundError
            return path.stat().st_size

    def content_tag(self, key: str) -> str:
        """See ``Store``."""
        path = self._path(key)
        with _reading(path, key):
            if not path.is_file():
                raise FileNotFoundError
            status = path.stat()
            return f"{status.st_size}-{status.st_mtime_ns}-{status.st_ino}"

    def put(self, key: str, data: bytes) -> None:
        """See ``Store``."""
        path = self._path(key)
        with writing(path, len(data)), self._partial() as (partial, file):
            file.write(data)
            self._place(partial, file, path)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """See ``Store``."""
        path = self._path(key)
        with writing(path, len(data)), self._partial() as (partial, file):
            file.write(data)
            _flush(file)
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                # A hard link appears whole or not at all, and never replaces.
                path.hardlink_to(partial)
            except FileExistsError:
                return False
            _flush_folder(path.parent)
            return True

    def upload(self, path: Path, key: str) -> None:
        """See ``Store``."""
        target = self._path(key)
        size_bytes = path.stat().st_size
        with (
            path.open("rb") as source,
            writing(target, size_bytes),
            self._partial() as (partial, file),
        ):
            shutil.copyfileobj(source, file, 1 << 20)
            self._place(partial, file, target)

    def download(self, key: str, path: Path) -> None:
        """See ``Store``."""
        source_path = self._path(key)
        partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        with _reading(source_path, key):
            source = source_path.open("rb")
        with source, writing(path, source_path.stat().st_size):
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                with partial.open("xb") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
                partial.replace(path)
            finally:
                partial.unlink(missing_ok=True)

    def local_path(self, key: str) -> Path | None:
        """See ``Store``."""
        return self._path(key)

    def keys(self, prefix: str) -> Iterator[str]:
        """See ``Store``."""
        if prefix:
            check_key(prefix.removesuffix("/"))
        found = []
        for folder, names, files in os.walk(self.root / prefix):
            place = Path(folder).relative_to(self.root)
            if place == Path():
                names[:] = [name for name in names if name != RESERVED]
            found += [(place / name).as_posix() for name in files]
        yield from sorted(found)

    def delete(self, key: str) -> None:
        """See ``Store``."""
        path = self._path(key)
        with writing(path, 0), suppress(FileNotFoundError):
            path.unlink()

    def _path(self, key: str) -> Path:
        check_key(key)
        return self.root / key

    @contextmanager
    def _partial(self) -> Iterator[tuple[Path, BinaryIO]]:
        folder = self.root / RESERVED
        folder.mkdir(parents=True, exist_ok=True)
        self._sweep(folder)
        partial = folder / uuid.uuid4().hex
        # Objects are read-only: they may be hard-linked into a stage's inputs.
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o444)
        try:
            with open(descriptor, "wb") as file:  # noqa: PTH123  # from a descriptor
                yield partial, file
        finally:
            with suppress(OSError):
                partial.unlink(missing_ok=True)

    @staticmethod
    def _sweep(folder: Path) -> None:
        """Remove what killed writers left; a living one writes on, or is done within the time."""
        oldest = time.time() - _ABANDONED_SECONDS
        with os.scandir(folder) as entries:
            for entry in entries:
                with suppress(OSError):
                    if entry.stat().st_mtime < oldest:
                        Path(entry.path).unlink()

    def _place(self, partial: Path, file: BinaryIO, path: Path) -> None:
        _flush(file)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.replace(path)
        _flush_folder(path.parent)


def _flush(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _reading(path: Path, key: str) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        raise KeyError(key) from None
    except OSError as error:
        raise _translate(error, "read", path) from error


@contextmanager
def writing(path: Path, size_bytes: int) -> Iterator[None]:
    """Turn a failed write of ``size_bytes`` to ``path`` into an error for a person.

    Raises:
        DiskFullError: no space or quota left.
        AccessError: permission denied or a read-only file system.
        UnavailableError: anything else that the system reports.
        ValueError: the path runs through an object, or is a folder of objects.
    """
    try:
        yield
    except (IsADirectoryError, NotADirectoryError, FileExistsError) as error:
        raise ValueError(f"{path}: one key is a folder of another ({error.strerror})") from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFullError(
                f"no space left on the device to write {path} ({size_bytes:,} bytes"
                f"{_free(path)}); free space, or choose another folder"
            ) from error
        raise _translate(error, "write", path) from error


def _translate(error: OSError, verb: str, path: Path) -> AccessError | UnavailableError:
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return AccessError(
            f"cannot {verb} {path}: {error.strerror}; give this user the right to {verb} it, "
            "or choose another folder"
        )
    return UnavailableError(f"cannot {verb} {path}: {error.strerror or error}")


def _free(path: Path) -> str:
    for folder in path.parents:
        with suppress(OSError):
            return f", {shutil.disk_usage(folder).free:,} free"
    return ""
