"""What identifies a text or request set of the user's own: content, not place."""

from __future__ import annotations

import hashlib
from pathlib import Path
from urllib.parse import unquote, urlsplit

from autocompress.contract.digest import digest
from autocompress.contract.errors import DataError


def content_revision(uri: str) -> str:
    """The digest of a local file, or of all files of a folder with their names.

    Raises:
        DataError: there is no such file or folder on this machine.
    """
    parts = urlsplit(uri)
    path = Path(unquote(parts.path)) if parts.scheme == "file" else Path(uri).expanduser()
    if path.is_file():
        return _file_digest(path)
    if not path.is_dir():
        raise DataError(f"{uri}: no such file or folder on this machine; give a path that exists")
    files = sorted(item for item in path.rglob("*") if item.is_file())
    return digest({item.relative_to(path).as_posix(): _file_digest(item) for item in files})


def _file_digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
