"""GGUF files turned into a safetensors model: de-quantised, so not the original weights."""

from __future__ import annotations

import json
import os
from pathlib import Path

from autocompress.contract.errors import DataError
from autocompress.sources.package import PackagedModel

#: Left in the folder so that scorecards and model cards can say where the weights come from.
ORIGIN_FILE = "autocompress_origin.json"


def convert_gguf(model: PackagedModel, into: Path) -> None:
    """Write configuration, tokenizer and bfloat16 weights of a GGUF file into ``into``.

    Raises:
        DataError: the file cannot be read as GGUF.
    """
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
    from transformers.utils import logging

    logging.disable_progress_bar()
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
    finally:
        logging.enable_progress_bar()
    network.save_pretrained(into)
    tokenizer.save_pretrained(into)
    origin = {
        "distribution": model.distribution,
        "version": model.version,
        "file": name,
        "note": "de-quantised from GGUF; not the original checkpoint",
    }
    (into / ORIGIN_FILE).write_text(json.dumps(origin, indent=1) + "\n")
