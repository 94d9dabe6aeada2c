"""Writing a finished model in the form that most engines serve."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from autocompress.contract.errors import DataError
from autocompress.families import llama, nemotron_nas
from autocompress.families.family import Family, NotExpressibleError
from autocompress.families.formats import ExportFormat
from autocompress.models.checkpoint import (
    CONFIG_FILE,
    Checkpoint,
    copy_companions,
    open_checkpoint,
    write_own_config,
)
from autocompress.models.layout import tensor_layouts
from autocompress.models.tensor_files import write_tensors

_FAMILIES: dict[ExportFormat, Family] = {
    ExportFormat.PLAIN: llama.FAMILY,
    ExportFormat.NEMOTRON_NAS: nemotron_nas.FAMILY,
}


def export(model_dir: Path, destination: Path, formats: tuple[ExportFormat, ...]) -> ExportFormat:
    """Write the model in the first format, in the order of ``ExportFormat``, that is allowed and
    can hold it; tokenizer and the like travel along. What was written is read back and compared.

    Raises:
        DataError: when the model cannot be read, or no allowed format can hold it; the reason of
            each is given.
        DiskFullError: when there is no space left.
    """
    checkpoint = open_checkpoint(model_dir)
    reasons = []
    for candidate in (item for item in ExportFormat if item in formats):
        try:
            _write(checkpoint, destination, candidate)
        except NotExpressibleError as error:
            reasons.append(f"{candidate}: {error}")
            continue
        copy_companions(model_dir, destination)
        _compare(checkpoint, open_checkpoint(destination))
        return candidate
    raise DataError(
        f"no allowed format can hold this model ({'; '.join(reasons) or 'none is allowed'}); "
        f"choose an engine that serves {ExportFormat.AUTOCOMPRESS}"
    )


def _write(checkpoint: Checkpoint, destination: Path, format_: ExportFormat) -> None:
    names = list(tensor_layouts(checkpoint.architecture))
    family = _FAMILIES.get(format_)
    if family is None:
        write_tensors(destination, ((name, checkpoint.read(name)) for name in names))
        write_own_config(destination, checkpoint.architecture, checkpoint.traits, checkpoint.dtype)
        return
    config = family.write_config(checkpoint.architecture, checkpoint.traits)
    config["torch_dtype"] = str(checkpoint.dtype).removeprefix("torch.")
    write_tensors(
        destination,
        ((family.tensors.original(name), checkpoint.read(name)) for name in names),
    )
    text = json.dumps(config, indent=1, sort_keys=True)
    (destination / CONFIG_FILE).write_text(text + "\n")


def _compare(written: Checkpoint, found: Checkpoint) -> None:
    same = written.architecture == found.architecture and all(
        torch.equal(written.read(name), found.read(name)) for name in written.stored_names
    )
    if not same:
        raise RuntimeError(f"{found.directory} does not hold the model that was exported")
