"""Checkpoints of a running stage in the store, for a machine whose disk does not outlive it.

A stage writes checkpoints as folders ``<series>/step-<n>`` that appear whole, by a rename. Each is
copied to ``checkpoints/<input digest>/<series>/step-<n>/`` as an artifact, its manifest last; the
newest two stay. All are removed when the stage's result is there.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from autocompress.contract.errors import AutocompressError
from autocompress.contract.progress import Progress
from autocompress.store import artifacts
from autocompress.store.protocol import Store

_KIND = "checkpoint"
_STEPS = "*/step-*"
_MANIFEST = "/manifest.json"
_KEPT = 2
_POLL_SECONDS = 1.0


def checkpoint_prefix(input_digest: str) -> str:
    """Where the store keeps the checkpoints of a stage that is running."""
    return f"checkpoints/{input_digest.removeprefix('sha256:')}"


@contextmanager
def stored_checkpoints(
    store: Store, input_digest: str, folder: Path, progress: Progress
) -> Iterator[None]:
    """Bring the newest valid checkpoint into ``folder``, then store those that appear there.

    They are stored beside the work, by a thread; the newest one before this returns or passes on
    an error. A store that fails meanwhile is told of and tried again: the work goes on without.
    """
    mirror = _Mirror(store, input_digest, folder, progress)
    mirror.restore()
    mirror.start()
    try:
        yield
    finally:
        mirror.finish()


def drop_checkpoints(store: Store, input_digest: str) -> None:
    """Remove what a stage that is done no longer needs; a store that fails now keeps it."""
    with suppress(AutocompressError):
        artifacts.remove(store, checkpoint_prefix(input_digest))


class _Mirror:
    def __init__(self, store: Store, input_digest: str, folder: Path, progress: Progress) -> None:
        self._store, self._input_digest = store, input_digest
        self._folder, self._progress = folder, progress
        self._prefix = checkpoint_prefix(input_digest)
        self._stored: set[str] = set()
        self._complained = ""
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="checkpoints", daemon=True)

    def restore(self) -> None:
        """Fetch the newest valid checkpoint that is newer than what the folder holds."""
        for name in reversed(self._stored_names()):
            here = [path.name for path in self._folder.glob(f"{name.partition('/')[0]}/step-*")]
            if name.partition("/")[2] <= max(here, default=""):
                continue
            if self._fetch(name):
                self._stored.add(name)
                self._progress.say(f"checkpoint {name} fetched from {self._store.uri}")

    def start(self) -> None:
        """Begin to watch the folder."""
        self._thread.start()

    def finish(self) -> None:
        """Store what is not stored yet, and stop watching."""
        self._end.set()
        self._thread.join()
        self._store_new()

    def _watch(self) -> None:
        while not self._end.wait(_POLL_SECONDS):
            self._store_new()

    def _store_new(self) -> None:
        """The newest checkpoint of each series, if it is new; older ones are of no more use."""
        newest = {path.parent: path for path in sorted(self._folder.glob(_STEPS))}
        for path in newest.values():
            name = path.relative_to(self._folder).as_posix()
            if name in self._stored:
                continue
            try:
                self._publish(name, path)
                self._prune(name.partition("/")[0])
            except (AutocompressError, OSError) as error:
                if str(error) != self._complained:
                    self._complained = str(error)
                    self._progress.say(f"checkpoint {name} is on this disk only: {error}")
            else:
                self._complained = ""
                self._stored.add(name)

    def _publish(self, name: str, path: Path) -> None:
        # Linked first: the stage removes old checkpoints whenever it likes.
        with tempfile.TemporaryDirectory(dir=self._folder, prefix="storing-") as scratch:
            staged = Path(scratch) / "checkpoint"
            try:
                shutil.copytree(path, staged, copy_function=os.link)
            except OSError:
                if path.is_dir():
                    raise
                return  # a newer one is there
            artifacts.publish(
                self._store,
                f"{self._prefix}/{name}",
                staged,
                kind=_KIND,
                input_digest=self._input_digest,
            )

    def _prune(self, series: str) -> None:
        names = [name for name in self._stored_names() if name.startswith(f"{series}/")]
        for name in names[:-_KEPT]:
            artifacts.remove(self._store, f"{self._prefix}/{name}")

    def _stored_names(self) -> list[str]:
        keys = self._store.keys(f"{self._prefix}/")
        ends = (key.removeprefix(f"{self._prefix}/") for key in keys if key.endswith(_MANIFEST))
        return sorted(end.removesuffix(_MANIFEST) for end in ends)

    def _fetch(self, name: str) -> bool:
        prefix = f"{self._prefix}/{name}"
        manifest = artifacts.find(self._store, prefix, input_digest=self._input_digest)
        if manifest is None:
            return False
        with tempfile.TemporaryDirectory(dir=self._folder, prefix="fetching-") as scratch:
            whole = Path(scratch) / "checkpoint"
            with suppress(artifacts.CorruptArtifactError):
                artifacts.fetch(self._store, prefix, manifest, whole)
                target = self._folder / name
                target.parent.mkdir(exist_ok=True)
                whole.rename(target)
                return True
        return False
