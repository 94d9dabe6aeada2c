"""Text of the user's own: .txt and .jsonl files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from autocompress.contract.errors import DataError, SpecError
from autocompress.text.documents import Document, TextKind, pieces

#: One .txt file is cut into documents of this size, so that it has a part in every split.
_DOCUMENT_BYTES = 8192


def own_text(uri: str) -> Iterator[Document]:
    """Documents of a file or folder: pieces of .txt files, field ``text`` of rows of .jsonl files.

    Raises:
        SpecError: ``uri`` is not a path or ``file:///path``.
        DataError: nothing is there, or a file is not text or not such rows.
    """
    root = _path(uri)
    if root.is_dir():
        files = sorted(p for p in root.rglob("*") if p.suffix in (".txt", ".jsonl") and p.is_file())
    elif root.is_file():
        files = [root]
    else:
        raise DataError(f"text.uri {uri!r}: no such file or folder")
    if not files or any(path.suffix not in (".txt", ".jsonl") for path in files):
        raise DataError(f"text.uri {uri!r}: holds no .txt or .jsonl file")
    for path in files:
        yield from _read(path, path.name if path == root else path.relative_to(root).as_posix())


def _path(uri: str) -> Path:
    if uri.startswith("file:"):
        return Path(unquote(urlsplit(uri).path))
    if "://" in uri:
        raise SpecError(
            f"text.uri {uri!r}: give a folder or file of .txt or .jsonl on this machine"
        )
    return Path(uri).expanduser()


def _read(path: Path, name: str) -> Iterator[Document]:
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"text {path}: cannot be read as UTF-8: {error}") from error
    texts = pieces(content, _DOCUMENT_BYTES) if path.suffix == ".txt" else _rows(path, content)
    for number, text in enumerate(texts, start=1):
        if text.strip():
            yield Document(kind=TextKind.OWN, name=f"{name}:{number}", text=text)


def _rows(path: Path, content: str) -> Iterator[str]:
    for number, line in enumerate(content.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(f"text {path}, line {number}: not JSON: {error}") from error
        text = row.get("text") if isinstance(row, dict) else None
        if not isinstance(text, str):
            raise DataError(f'text {path}, line {number}: no field "text" with a string in it')
        yield text
