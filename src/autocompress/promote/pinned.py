"""A published artifact by URI and digest: fetched, or checked where it lies already."""

from __future__ import annotations

import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from autocompress.contract import documents
from autocompress.contract.errors import DataError
from autocompress.contract.stage import FileEntry, Manifest, output_digest
from autocompress.store.artifacts import file_digest, file_key
from autocompress.store.opening import open_store
from autocompress.store.protocol import Store, check_key

_MANIFEST = "manifest.json"
_PARTIAL = ".partial"
#: Where the files of an artifact lie, below its prefix: see ``store.artifacts``.
_FILES_FOLDER = re.compile(r"(?<=[0-9a-f]{64})/[0-9a-f]{16}$")
_DOWNLOADS = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Fetched:
    """What is in the folder now; ``downloaded_bytes`` leaves out what was there before."""

    files: int
    size_bytes: int
    downloaded_bytes: int


def fetch(uri: str, digest: str, folder: Path) -> Fetched:
    """Bring the artifact at ``uri`` into ``folder``, every file checked against ``digest``.

    ``uri`` names the artifact, its manifest or its files' folder. A fetch that was interrupted
    goes on where it was. The store is only read.

    Raises:
        DataError: no such artifact, another content than ``digest``, or a folder that holds
            something else.
        SpecError, AccessError, UnavailableError: as ``open_store`` and ``Store``.
    """
    root, prefix = _split(uri)
    store = open_store(root)
    manifest = _manifest(store, uri, prefix, digest)
    for name in manifest.files:
        check_key(name)
    shutil.rmtree(folder / _PARTIAL, ignore_errors=True)
    _refuse_strangers(folder, manifest)
    wanted = [name for name in manifest.files if not _is_here(folder / name, manifest.files[name])]
    (folder / _PARTIAL).mkdir(parents=True)
    bring = partial(_bring, store, prefix, manifest, folder)
    with ThreadPoolExecutor(_DOWNLOADS) as pool:
        for _ in pool.map(bring, enumerate(wanted)):
            pass
    (folder / _PARTIAL).rmdir()
    return Fetched(
        files=len(manifest.files),
        size_bytes=sum(entry.size_bytes for entry in manifest.files.values()),
        downloaded_bytes=sum(manifest.files[name].size_bytes for name in wanted),
    )


def verify(folder: Path, digest: str) -> None:
    """Check that ``folder`` holds the artifact of that digest and nothing else.

    Raises:
        DataError: it does not.
    """
    paths = {name: folder / name for name in _names(folder)}
    with ThreadPoolExecutor(_DOWNLOADS) as pool:
        found = zip(paths, pool.map(file_digest, paths.values()), strict=True)
        actual = output_digest(
            {
                name: FileEntry(digest=content, size_bytes=paths[name].stat().st_size)
                for name, content in found
            }
        )
    if actual != digest:
        raise DataError(
            f"{folder} holds {actual}, not {digest}; it was changed, is incomplete or is another "
            "model: fetch it again"
        )


def _split(uri: str) -> tuple[str, str]:
    """The URI of a store, and the artifact's prefix in it."""
    path = uri.rstrip("/").removesuffix(f"/{_MANIFEST}")
    root, _, prefix = _FILES_FOLDER.sub("", path).rpartition("/")
    if not prefix or root.removesuffix("/") in ("", "s3:", "file:"):
        raise DataError(f"{uri} does not name an artifact; give what status.result.modelUri says")
    return root, prefix


def _manifest(store: Store, uri: str, prefix: str, digest: str) -> Manifest:
    try:
        data = store.get(f"{prefix}/{_MANIFEST}")
    except KeyError:
        raise DataError(
            f"{uri} holds no complete artifact (no {_MANIFEST}); check the URI, or run the job "
            "again if the model was deleted"
        ) from None
    manifest = documents.load(Manifest, data, name=f"{uri}: {_MANIFEST}")
    actual = output_digest(manifest.files)
    if not actual == manifest.output_digest == digest:
        raise DataError(
            f"{uri} holds {actual}, not {digest}; give the digest that status.result.digest says"
        )
    return manifest


def _refuse_strangers(folder: Path, manifest: Manifest) -> None:
    strangers = sorted(_names(folder) - set(manifest.files))
    if strangers:
        raise DataError(
            f"{folder} holds {strangers[0]}, which is not of this artifact"
            + (f" (nor are {len(strangers) - 1} others)" if strangers[1:] else "")
            + "; give an empty folder"
        )


def _names(folder: Path) -> set[str]:
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() or path.is_symlink()
    }


def _is_here(path: Path, entry: FileEntry) -> bool:
    return (
        path.is_file()
        and path.stat().st_size == entry.size_bytes
        and file_digest(path) == entry.digest
    )


def _bring(
    store: Store, prefix: str, manifest: Manifest, folder: Path, numbered: tuple[int, str]
) -> None:
    number, name = numbered
    incoming = folder / _PARTIAL / str(number)
    try:
        store.download(file_key(prefix, manifest, name), incoming)
    except KeyError:
        raise DataError(
            f"{store.uri}/{prefix}: {name} is missing; run the job again to publish the model anew"
        ) from None
    actual = file_digest(incoming)
    if actual != manifest.files[name].digest:
        incoming.unlink()
        raise DataError(
            f"{store.uri}/{prefix}: {name} is damaged (expected {manifest.files[name].digest}, "
            f"found {actual}); run the job again to publish the model anew"
        )
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    incoming.replace(folder / name)
