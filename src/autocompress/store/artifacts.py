"""Artifacts: folders published under a prefix, complete when their manifest is there.

Files lie under ``<prefix>/<first 16 digits of the output digest>/``, so that two publishers of one
prefix with different contents never mix; ``<prefix>/manifest.json`` is written last and names one
of them. ``find`` checks presence and sizes, which is cheap; ``fetch`` checks every digest.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from autocompress.contract import documents
from autocompress.contract.errors import AutocompressError, DataError, ExitCode
from autocompress.contract.stage import Effort, FileEntry, Manifest, Summary, output_digest
from autocompress.store.directory import writing
from autocompress.store.protocol import Store, check_key


class CorruptArtifactError(DataError):
    """A stored file is not what its manifest says; the artifact was discarded, to be made again.

    Its exit code asks runners to try again: the next try makes the artifact anew.
    """

    exit_code = ExitCode.TRY_LATER


@dataclass(frozen=True, kw_only=True, slots=True)
class Reference:
    """Where a document points to an artifact, and which content it means."""

    prefix: str
    kind: str
    input_digest: str
    output_digest: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Took:
    """What making an artifact took, as its manifest says it."""

    wall_seconds: float = 0.0
    peak_memory_bytes: int = 0
    effort: Effort | None = None


def reference(prefix: str, manifest: Manifest) -> Reference:
    """The reference to a published artifact."""
    return Reference(
        prefix=prefix,
        kind=manifest.kind,
        input_digest=manifest.input_digest,
        output_digest=manifest.output_digest,
    )


def publish(
    store: Store,
    prefix: str,
    folder: Path,
    *,
    kind: str,
    input_digest: str,
    summary: Summary | None = None,
    took: Callable[[], Took] = Took,
) -> Manifest:
    """Store every file of ``folder``, then the manifest; ``took`` is asked in between.

    Returns the manifest that counts: where a complete artifact for ``input_digest`` is there
    already (another run was faster), that one's.
    """
    paths = {
        path.relative_to(folder).as_posix(): path
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    files = {
        name: FileEntry(digest=file_digest(path), size_bytes=path.stat().st_size)
        for name, path in paths.items()
    }
    manifest = Manifest(
        kind=kind,
        input_digest=input_digest,
        output_digest=output_digest(files),
        files=files,
        summary=summary,
    )
    winner = find(store, prefix, input_digest=input_digest)
    if winner is not None:
        return winner
    for name, path in paths.items():
        store.upload(path, file_key(prefix, manifest, name))
    cost = took()
    manifest = replace(
        manifest,
        wall_seconds=cost.wall_seconds,
        peak_memory_bytes=cost.peak_memory_bytes,
        effort=cost.effort,
    )
    data = documents.dump(manifest)
    if not store.put_if_absent(_manifest_key(prefix), data):
        winner = find(store, prefix, input_digest=input_digest)
        if winner is not None:
            return winner
        store.put(_manifest_key(prefix), data)  # what is there is damaged
    return manifest


def find(store: Store, prefix: str, *, input_digest: str) -> Manifest | None:
    """The manifest of a complete artifact made for ``input_digest``; else ``None``: make it.

    A manifest that cannot be read, or names a file that is missing or has another size, counts as
    absent.
    """
    try:
        data = store.get(_manifest_key(prefix))
        manifest = documents.load(Manifest, data, name=f"{store.uri}: {prefix}/manifest.json")
        if (
            manifest.input_digest != input_digest
            or manifest.output_digest != output_digest(manifest.files)
            or any(
                store.size_bytes(file_key(prefix, manifest, name)) != entry.size_bytes
                for name, entry in manifest.files.items()
            )
        ):
            return None
    except (KeyError, ValueError, DataError):
        return None
    return manifest


def resolve(store: Store, target: Reference) -> Manifest | None:
    """The manifest that ``target`` means, if the store still holds that content."""
    manifest = find(store, target.prefix, input_digest=target.input_digest)
    if manifest is None or manifest.output_digest != target.output_digest:
        return None
    return manifest


def fetch(store: Store, prefix: str, manifest: Manifest, destination: Path) -> None:
    """Bring every file of an artifact into ``destination``, verified; to be read only.

    Files of a directory store on the same file system are hard-linked.

    Raises:
        CorruptArtifactError: a file is missing or differs from its digest. The manifest has been
            removed where that is allowed, so that the next run makes the artifact again.
    """
    destination.mkdir(parents=True, exist_ok=True)
    for name, entry in manifest.files.items():
        check_key(name)
        try:
            actual = _fetch_file(store, file_key(prefix, manifest, name), destination / name)
        except KeyError:
            actual = "nothing"
        if actual != entry.digest:
            with suppress(AutocompressError):
                store.delete(_manifest_key(prefix))
            raise CorruptArtifactError(
                f"{store.uri}: {prefix}: {name} is damaged (expected {entry.digest}, found "
                f"{actual}); it was discarded, run again to make it anew"
            )


def read(store: Store, prefix: str, manifest: Manifest, name: str) -> bytes:
    """One small file of an artifact, verified.

    Raises:
        CorruptArtifactError: as ``fetch``.
        KeyError: the artifact has no such file.
    """
    entry = manifest.files[name]
    try:
        data = store.get(file_key(prefix, manifest, name))
    except KeyError:
        data = None
    if data is None or "sha256:" + hashlib.sha256(data).hexdigest() != entry.digest:
        with suppress(AutocompressError):
            store.delete(_manifest_key(prefix))
        raise CorruptArtifactError(
            f"{store.uri}: {prefix}: {name} is damaged; it was discarded, run again to make it anew"
        )
    return data


def local_folder(store: Store, prefix: str, manifest: Manifest) -> Path | None:
    """Where the files lie, to be read only, when the store is a directory."""
    return store.local_path(_folder(prefix, manifest.output_digest))


def discard(store: Store, prefix: str) -> None:
    """Forget an artifact: without a manifest it is made again. Its files stay."""
    store.delete(_manifest_key(prefix))


def remove(store: Store, prefix: str) -> int:
    """Delete an artifact, the manifest first; returns how many objects there were."""
    keys = list(store.keys(f"{prefix}/"))
    for key in sorted(keys, key=lambda key: key != _manifest_key(prefix)):
        store.delete(key)
    return len(keys)


def uri(store: Store, target: Reference) -> str:
    """The files of an artifact as a program names them."""
    return f"{store.uri.rstrip('/')}/{_folder(target.prefix, target.output_digest)}"


def manifest_uri(store: Store, prefix: str) -> str:
    """The manifest of an artifact as a program names it."""
    return f"{store.uri.rstrip('/')}/{_manifest_key(prefix)}"


def location(store: Store, target: Reference) -> str:
    """Where a person finds the files: a folder, or a URI in a bucket."""
    folder = _folder(target.prefix, target.output_digest)
    path = store.local_path(folder)
    return str(path) if path is not None else f"{store.uri}/{folder}"


def file_key(prefix: str, manifest: Manifest, name: str) -> str:
    """The key of one file of an artifact."""
    return f"{_folder(prefix, manifest.output_digest)}/{name}"


def file_digest(path: Path) -> str:
    """``sha256:`` and the digest of a file's content."""
    with path.open("rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()


def _folder(prefix: str, output: str) -> str:
    return f"{prefix}/{output.removeprefix('sha256:')[:16]}"


def _manifest_key(prefix: str) -> str:
    return f"{prefix}/manifest.json"


def _fetch_file(store: Store, key: str, path: Path) -> str:
    source = store.local_path(key)
    if source is None:
        store.download(key, path)
        return file_digest(path)
    if not source.is_file():
        raise KeyError(key)
    actual = file_digest(source)
    with writing(path, source.stat().st_size):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        try:
            os.link(source, path)
        except OSError:  # another file system, or one without hard links
            shutil.copyfile(source, path)
    return actual
