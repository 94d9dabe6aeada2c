"""What identifies a parent's content: cheap to tell, different whenever the content is."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from autocompress.contract.digest import digest
from autocompress.contract.errors import DataError, SpecError
from autocompress.domain.job import ModelSource
from autocompress.sources.hub import hub_commit
from autocompress.sources.package import find_packaged_model
from autocompress.store.opening import open_store

#: What a model folder is made of, besides its text files for people.
MODEL_SUFFIXES = frozenset({".safetensors", ".json", ".model", ".jinja"})
MODEL_FILES = frozenset({"merges.txt", "LICENSE", "LICENSE.txt", "LICENSE.md", "NOTICE"})


def resolve_revision(source: ModelSource, cache_dir: Path) -> str:
    """``sha256:...`` of the parent's content.

    Digests of large local files are remembered in ``cache_dir`` by path, size and time of change.

    Raises:
        SpecError: the scheme is unknown, or a package is not installed.
        DataError: nothing that could be a model is there, or not the revision that was asked for.
        UnavailableError, AccessError: the bucket or the hub cannot be reached.
    """
    scheme = source.uri.partition(":")[0]
    match scheme:
        case "hf":
            return digest([source.uri, hub_commit(source)])
        case "file":
            folder = local_folder(source.uri)
            files = {path.name: _remembered_digest(path, cache_dir) for path in model_files(folder)}
            found = digest(files)
        case "package":
            model = find_packaged_model(source.uri)
            found = digest([model.file.name, _remembered_digest(model.file, cache_dir)])
        case "s3":
            found = _bucket_digest(source.uri)
        case _:
            raise SpecError(
                f"spec.source.uri: got {source.uri!r}; give a folder, file:///folder, "
                "s3://bucket/prefix, hf://organisation/name or package:distribution"
            )
    if source.revision not in (None, found):
        raise DataError(
            f"spec.source.revision: got {source.revision!r}, but what {source.uri} holds now is "
            f"{found}; correct it, leave it out, or bring back the content that was meant"
        )
    return found


def _bucket_digest(uri: str) -> str:
    # Tags instead of contents: nobody wants to read all weights to learn that nothing changed.
    store = open_store(uri)
    tags = {
        key: store.content_tag(key)
        for key in store.keys("")
        if "/" not in key and is_model_file(Path(key))
    }
    if not tags:
        raise DataError(f"spec.source.uri: nothing like a model is in {uri}")
    return digest(tags)


def local_folder(uri: str) -> Path:
    """The folder of a ``file:`` URI.

    Raises:
        DataError: it is not a folder.
    """
    folder = Path(unquote(urlsplit(uri).path))
    if not folder.is_dir():
        raise DataError(f"spec.source.uri: {folder} is not a folder; give the folder of a model")
    return folder


def is_model_file(path: Path) -> bool:
    """Whether a file belongs to a model: weights as safetensors, configuration, tokenizer."""
    return path.suffix in MODEL_SUFFIXES or path.name in MODEL_FILES


def model_files(folder: Path) -> list[Path]:
    """The files of a model folder, in order.

    Raises:
        DataError: there is no ``config.json``.
    """
    if not (folder / "config.json").is_file():
        raise DataError(f"{folder} has no config.json; give the folder of a model")
    return sorted(path for path in folder.iterdir() if path.is_file() and is_model_file(path))


def _remembered_digest(path: Path, cache_dir: Path) -> str:
    status = path.stat()
    mark = [str(path.resolve()), status.st_size, status.st_mtime_ns, status.st_ino]
    book = cache_dir / "digests" / f"{digest(mark).removeprefix('sha256:')[:32]}.json"
    known = _read_book(book)
    if known.get("mark") == mark and isinstance(known.get("digest"), str):
        return str(known["digest"])
    with path.open("rb") as file:
        value = hashlib.file_digest(file, "sha256").hexdigest()
    book.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=book.parent, delete=False) as new:
        json.dump({"mark": mark, "digest": value}, new)
    os.replace(new.name, book)  # noqa: PTH105  # a name, not a path
    return value


def _read_book(book: Path) -> Mapping[str, object]:
    try:
        content = json.loads(book.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
