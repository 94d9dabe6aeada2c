"""A parent's files in a local folder: safetensors, configuration, tokenizer."""

from __future__ import annotations

import errno
import fcntl
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from autocompress.contract.errors import DataError, DiskFullError
from autocompress.contract.progress import Progress
from autocompress.domain.job import ModelSource
from autocompress.sources.convert import convert_gguf
from autocompress.sources.hub import hub_snapshot
from autocompress.sources.package import find_packaged_model
from autocompress.sources.revision import (
    MODEL_FILES,
    MODEL_SUFFIXES,
    is_model_file,
    local_folder,
    model_files,
    resolve_revision,
)
from autocompress.store.opening import open_store

_SCRATCH = "new-"
_PICKLES = (".bin", ".pt", ".pth", ".ckpt")


def fetch_parent(source: ModelSource, cache_dir: Path, progress: Progress) -> Path:
    """The folder with the parent's files, to be read only.

    A ``file:`` source is used where it lies; others are brought into ``cache_dir`` once.

    Raises:
        DataError: the files are no safetensors model; pickled checkpoints are refused.
        DiskFullError: no space is left; nothing half-written stays.
        SpecError, UnavailableError, AccessError: as ``resolve_revision``.
    """
    if source.uri.startswith("file:"):
        folder = local_folder(source.uri)
    else:
        revision = resolve_revision(source, cache_dir).removeprefix("sha256:")
        folder = cache_dir / "parents" / revision[:32]
        if not folder.is_dir():
            _bring(source, folder, progress)
    require_safetensors(folder)
    return folder


def _bring(source: ModelSource, folder: Path, progress: Progress) -> None:
    scheme = source.uri.partition(":")[0]
    fillers: dict[str, Callable[[Path], None]] = {
        "package": lambda into: convert_gguf(find_packaged_model(source.uri), into),
        "s3": lambda into: _download_bucket(source, into),
        "hf": lambda into: _download_hub(source, into),
    }
    progress.task("fetching the parent", 1)
    with _one_at_a_time(folder.parent):
        if folder.is_dir():  # another run was first
            return
        scratch = Path(tempfile.mkdtemp(dir=folder.parent, prefix=_SCRATCH))
        try:
            fillers[scheme](scratch)
            require_safetensors(scratch)
            scratch.chmod(0o755)
            for path in scratch.iterdir():
                path.chmod(0o644)
            scratch.rename(folder)
        except Exception as error:
            # safetensors reports a full disk as an error of its own.
            number = error.errno if isinstance(error, OSError) else None
            if number in (errno.ENOSPC, errno.EDQUOT) or "No space left" in str(error):
                raise DiskFullError(
                    f"no space left in {folder.parent} for the parent {source.uri}; free some, or "
                    "set AUTOCOMPRESS_CACHE to a larger disk"
                ) from error
            raise
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    progress.advance(1)


@contextmanager
def _one_at_a_time(parents: Path) -> Iterator[None]:
    """Lock the folder, and clear what a killed process left in it."""
    parents.mkdir(parents=True, exist_ok=True)
    with (parents / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for left_over in parents.glob(f"{_SCRATCH}*"):
            shutil.rmtree(left_over, ignore_errors=True)
        yield


def _download_bucket(source: ModelSource, into: Path) -> None:
    store = open_store(source.uri)
    for key in store.keys(""):
        if "/" not in key and is_model_file(Path(key)):
            store.download(key, into / key)


def _download_hub(source: ModelSource, into: Path) -> None:
    patterns = [*(f"*{suffix}" for suffix in sorted(MODEL_SUFFIXES)), *sorted(MODEL_FILES)]
    for path in model_files(hub_snapshot(source, patterns)):
        shutil.copyfile(path, into / path.name)


def require_safetensors(folder: Path) -> None:
    """Refuse a folder that is no safetensors model.

    Raises:
        DataError: saying what is there instead.
    """
    model_files(folder)
    if any(folder.glob("*.safetensors")):
        return
    pickles = sorted(path.name for path in folder.iterdir() if path.suffix in _PICKLES)
    if pickles:
        raise DataError(
            f"{folder} holds pickled weights ({', '.join(pickles)}), which can run code when read; "
            "convert them to safetensors first"
        )
    raise DataError(f"{folder} holds no weights (*.safetensors); give a whole model folder")
