"""GGUF files turned into a safetensors model: de-quantised, so not the original weights."""

from __future__ import annotations

import json
import os
import shutil
from functools import partial
from importlib.metadata import distribution
from pathlib import Path

from autocompress.contract.errors import DataError
from autocompress.sources.package import PackagedModel

#: Left in the folder so that scorecards and model cards can say where the weights come from.
ORIGIN_FILE = "autocompress_origin.json"
_LICENCES = ("LICENSE", "LICENSE.txt", "LICENSE.md", "NOTICE")


def convert_gguf(model: PackagedModel, into: Path) -> None:
    """Write configuration, tokenizer and bfloat16 weights of a GGUF file into ``into``.

    Raises:
        DataError: the file cannot be read as GGUF.
    """
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import torch
    from tqdm import tqdm  # type: ignore[import-untyped]
    from transformers import (
        AutoModelForCausalLM,
        AutoTokenizer,
        GgufConfig,
        modeling_gguf_pytorch_utils,
    )
    from transformers.utils import logging

    # A stage has its own progress; transformers' switch does not reach the bar of this module.
    logging.disable_progress_bar()
    modeling_gguf_pytorch_utils.tqdm = partial(tqdm, disable=True)
    folder, name = model.file.parent, model.file.name
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
        network = AutoModelForCausalLM.from_pretrained(
            folder,
            gguf_file=name,
            dtype=torch.bfloat16,
            quantization_config=GgufConfig(dequantize=True),
        )
    except (ValueError, KeyError, IndexError, UnicodeDecodeError) as error:
        raise DataError(f"{model.file} cannot be read as a GGUF model: {error}") from error
    network.save_pretrained(into)
    tokenizer.save_pretrained(into)
    _copy_licences(model, into)
    (into / ORIGIN_FILE).write_text(json.dumps(_origin(model), indent=1) + "\n")
    (into / "README.md").write_text(_card(model))


def origin_note(folder: Path) -> str | None:
    """What must be said beside every figure of the model in ``folder``, if there is something."""
    try:
        origin = json.loads((folder / ORIGIN_FILE).read_text())
    except (OSError, ValueError):
        return None
    note = origin.get("note") if isinstance(origin, dict) else None
    return note if isinstance(note, str) else None


def _origin(model: PackagedModel) -> dict[str, str]:
    return {
        "distribution": model.distribution,
        "version": model.version,
        "file": model.file.name,
        "note": f"the parent's weights are de-quantised from {model.file.name} "
        f"({model.distribution} {model.version}), not the original checkpoint",
    }


def _card(model: PackagedModel) -> str:
    metadata = distribution(model.distribution).metadata
    stated = metadata.get_all("License-Expression") or metadata.get_all("License")
    licence = ", ".join(stated or ["see the package"])
    return (
        f"# {model.file.stem}\n\n"
        f"Converted from `{model.file.name}` of the Python package `{model.distribution}` "
        f"{model.version} (licence: {licence}).\n\n"
        "The weights are de-quantised from that file's quantised form. They are not the original "
        "checkpoint, and scores differ from its published ones.\n"
    )


def _copy_licences(model: PackagedModel, into: Path) -> None:
    for entry in distribution(model.distribution).files or ():
        path = Path(str(entry.locate()))
        if entry.name in _LICENCES and path.is_file():
            shutil.copyfile(path, into / entry.name)
