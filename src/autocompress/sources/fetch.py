"""A parent's files in a local folder: safetensors, configuration, tokenizer."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from autocompress.contract.errors import DataError, DiskFullError, SpecError, UnavailableError
from autocompress.contract.progress import Progress
from autocompress.domain.job import ModelSource
from autocompress.sources.convert import convert_gguf
from autocompress.sources.package import find_packaged_model
from autocompress.sources.revision import (
    MODEL_FILES,
    MODEL_SUFFIXES,
    hub_commit,
    is_model_file,
    local_folder,
    model_files,
    resolve_revision,
)
from autocompress.store.opening import open_store

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
    _require_safetensors(folder)
    return folder


def _bring(source: ModelSource, folder: Path, progress: Progress) -> None:
    scheme = source.uri.partition(":")[0]
    fillers: dict[str, Callable[[Path], None]] = {
        "package": lambda into: convert_gguf(find_packaged_model(source.uri), into),
        "s3": lambda into: _download_bucket(source, into),
        "hf": lambda into: _download_hub(source, into),
    }
    if scheme not in fillers:
        raise SpecError(f"spec.source.uri: got {source.uri!r}: unknown scheme {scheme!r}")
    progress.task("fetching the parent", 1)
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=folder.parent, prefix="new-"))
    try:
        fillers[scheme](scratch)
        scratch.chmod(0o755)
        _put_in_place(scratch, folder)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise DiskFullError(
            f"no space left in {folder.parent} for the parent {source.uri}; free some, or set "
            "AUTOCOMPRESS_CACHE to a larger disk"
        ) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    progress.advance(1)


def _put_in_place(scratch: Path, folder: Path) -> None:
    try:
        os.rename(scratch, folder)  # noqa: PTH104  # fails, as wanted, where another run was first
    except OSError:
        if not folder.is_dir():
            raise


def _download_bucket(source: ModelSource, into: Path) -> None:
    store = open_store(source.uri)
    for key in store.keys(""):
        if "/" not in key and is_model_file(Path(key)):
            store.download(key, into / key)


def _download_hub(source: ModelSource, into: Path) -> None:
    from huggingface_hub import snapshot_download

    name = source.uri.removeprefix("hf://")
    patterns = [*(f"*{suffix}" for suffix in sorted(MODEL_SUFFIXES)), *sorted(MODEL_FILES)]
    commit = hub_commit(source)
    try:
        snapshot = snapshot_download(name, revision=commit, allow_patterns=patterns)
    except (ValueError, RuntimeError, ConnectionError) as error:
        raise UnavailableError(f"{name} could not be downloaded: {error}; try again") from error
    for path in model_files(Path(snapshot)):
        shutil.copyfile(path, into / path.name)


def _require_safetensors(folder: Path) -> None:
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
