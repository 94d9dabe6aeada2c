"""The folder of a finished model, as it is published: the checkpoint and its card."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from autocompress.contract.stage import FileEntry, output_digest
from autocompress.families import nemotron_nas
from autocompress.families.formats import ExportFormat
from autocompress.families.registry import identify
from autocompress.models.checkpoint import read_config
from autocompress.store.artifacts import file_digest
from autocompress_vllm.config import MODEL_TYPE


def assemble(checkpoint_dir: Path, licences: Sequence[Path], destination: Path) -> None:
    """Bring a checkpoint and the parent's licence files into ``destination``.

    The checkpoint's own files stay as they are: they may belong to a store.
    """
    destination.mkdir(parents=True)
    for path in sorted(checkpoint_dir.rglob("*")):
        if path.is_file():
            _link(path, destination / path.relative_to(checkpoint_dir))
    for path in licences:
        if not (destination / path.name).exists():
            shutil.copyfile(path, destination / path.name)


def folder_digest(folder: Path) -> str:
    """The digest of names and contents, the same that a manifest of the folder has."""
    return output_digest(
        {
            path.relative_to(folder).as_posix(): FileEntry(
                digest=file_digest(path), size_bytes=path.stat().st_size
            )
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }
    )


def format_of(checkpoint_dir: Path) -> ExportFormat:
    """The export format that the configuration names."""
    config = read_config(checkpoint_dir)
    if config.get("model_type") == MODEL_TYPE:
        return ExportFormat.AUTOCOMPRESS
    is_nas = identify(config) is nemotron_nas.FAMILY
    return ExportFormat.NEMOTRON_NAS if is_nas else ExportFormat.PLAIN


def _link(source: Path, destination: Path) -> None:
    destination.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, destination)
    except OSError:  # another file system
        shutil.copyfile(source, destination)
