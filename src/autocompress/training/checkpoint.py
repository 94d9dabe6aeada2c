"""Checkpoints of a training run: named tensors and a JSON state, whole or absent.

A checkpoint is a folder ``step-<n>``, written beside and renamed; its state names the digest of the
tensors. The newest that is intact counts, and the one before it is kept.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from autocompress.contract.documents import dump, load
from autocompress.contract.errors import DataError, DiskFullError
from autocompress.domain.records import RecoveryPoint
from autocompress.training import parallel

_TENSORS, _STATE = "tensors.safetensors", "state.json"
_KEPT = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingState:
    """Where a run is: optimizer steps done, and the curve so far."""

    step: int
    points: tuple[RecoveryPoint, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Sealed:
    state: TrainingState
    tensors_digest: str


def save_checkpoint(folder: Path, state: TrainingState, tensors: Mapping[str, Tensor]) -> None:
    """Write a checkpoint and drop all but the newest two.

    Of processes that train together, the first one writes it, with the curve of all.

    Raises:
        DiskFullError: no space is left; earlier checkpoints are untouched.
    """
    if (peers := parallel.current()) is not None:
        state = replace(state, points=peers.whole_points(state.points))
        if not peers.leads:
            return
    folder.mkdir(parents=True, exist_ok=True)
    for left_over in folder.glob("new-*"):
        shutil.rmtree(left_over, ignore_errors=True)
    scratch = Path(tempfile.mkdtemp(dir=folder, prefix="new-"))
    try:
        contiguous = {name: tensor.contiguous() for name, tensor in tensors.items()}
        save_file(contiguous, scratch / _TENSORS)
        sealed = _Sealed(state=state, tensors_digest=_digest(scratch / _TENSORS))
        (scratch / _STATE).write_bytes(dump(sealed))
        for name in (_TENSORS, _STATE):
            with (scratch / name).open("rb") as file:
                os.fsync(file.fileno())
        target = folder / f"step-{state.step:08d}"
        shutil.rmtree(target, ignore_errors=True)
        scratch.rename(target)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(scratch, ignore_errors=True)
        full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
        if full or "No space left" in str(error):
            raise DiskFullError(
                f"no space left for a checkpoint in {folder}; free some and run again to go on"
            ) from error
        raise
    for old in _steps(folder)[:-_KEPT]:
        shutil.rmtree(old, ignore_errors=True)


def newest_checkpoint(folder: Path) -> tuple[TrainingState, dict[str, Tensor]] | None:
    """The newest intact checkpoint; damaged ones are passed over."""
    for path in reversed(_steps(folder)):
        try:
            if (state := _intact_state(path)) is not None:
                return state, load_file(path / _TENSORS)
        except (OSError, SafetensorError):
            continue
    return None


def newest_folder(folder: Path) -> Path | None:
    """Where the newest intact checkpoint lies."""
    steps = reversed(_steps(folder))
    return next((path for path in steps if _intact_state(path) is not None), None)


def _intact_state(path: Path) -> TrainingState | None:
    try:
        sealed = load(_Sealed, (path / _STATE).read_bytes(), name=str(path / _STATE))
        return sealed.state if _digest(path / _TENSORS) == sealed.tensors_digest else None
    except (OSError, DataError):
        return None


def _steps(folder: Path) -> list[Path]:
    return sorted(folder.glob("step-*"))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()
