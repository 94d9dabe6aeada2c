"""Model folders: opened with every size checked, loaded into the canonical model, and saved."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import initialization

from autocompress.contract.errors import DataError
from autocompress.domain.architecture import Architecture
from autocompress.families.fields import Config
from autocompress.families.registry import identify
from autocompress.families.traits import Traits
from autocompress.models.configuration import configuration, read_own_config
from autocompress.models.heterogeneous import HeterogeneousForCausalLM
from autocompress.models.layout import tensor_shapes
from autocompress.models.tensor_files import TensorFiles, open_tensors, write_tensors
from autocompress_vllm.config import MODEL_TYPE

CONFIG_FILE = "config.json"
#: What belongs to a model beside weights and sizes, and travels along unchanged.
COMPANIONS = (
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
    "chat_template.json",
    "generation_config.json",
    "LICENSE",
    "LICENSE.txt",
    "LICENSE.md",
    "NOTICE",
)

EMBEDDING = "model.embed_tokens.weight"
_HEAD = "lm_head.weight"


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A model folder whose tensors were found to fit its configuration.

    ``stored_names`` maps every canonical name to the name in the files.
    """

    directory: Path
    architecture: Architecture
    traits: Traits
    tensors: TensorFiles
    stored_names: Mapping[str, str]

    @property
    def dtype(self) -> torch.dtype:
        """The element type of the embedding, which stands for the model's."""
        return self.tensors.dtypes[self.stored_names[EMBEDDING]]

    def read(self, name: str) -> torch.Tensor:
        """The tensor with this canonical name, on the CPU, in its stored type.

        Raises:
            DataError: when its file cannot be read.
        """
        return self.tensors.read(self.stored_names[name])


def read_config(directory: Path) -> Config:
    """The folder's ``config.json``.

    Raises:
        DataError: when it is missing or not a JSON mapping.
    """
    path = directory / CONFIG_FILE
    try:
        config = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise DataError(f"{path} is missing; give the folder of a model") from error
    except ValueError as error:
        raise DataError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(config, dict):
        raise DataError(f"{path} must hold a mapping")
    return config


def describe(config: Config) -> tuple[Architecture, Traits]:
    """Sizes and traits by a ``config.json`` alone, of any family or of our own format.

    Raises:
        DataError: for an unknown family, or a field that is missing or wrong.
    """
    if config.get("model_type") == MODEL_TYPE:
        return read_own_config(config)
    return identify(config).read_config(config)


def open_checkpoint(directory: Path) -> Checkpoint:
    """Read configuration and tensor headers, and compare every size.

    Raises:
        DataError: naming the field, file or tensor that is wrong, and what would be right.
    """
    config = read_config(directory)
    architecture, traits = describe(config)
    tensors = open_tensors(directory)
    stored = _match(architecture, tensors, _canonical_names(config), directory)
    return Checkpoint(
        directory=directory,
        architecture=architecture,
        traits=traits,
        tensors=tensors,
        stored_names=stored,
    )


def read_architecture(directory: Path) -> tuple[Architecture, Traits]:
    """Sizes and traits of a model folder, its tensors checked against them.

    Raises:
        DataError: as ``open_checkpoint``.
    """
    checkpoint = open_checkpoint(directory)
    return checkpoint.architecture, checkpoint.traits


def load(directory: Path, dtype: torch.dtype) -> HeterogeneousForCausalLM:
    """The canonical model with a folder's weights, in evaluation mode, on the CPU.

    Raises:
        DataError: as ``open_checkpoint``.
    """
    checkpoint = open_checkpoint(directory)
    model = empty(checkpoint.architecture, checkpoint.traits, dtype)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(checkpoint.read(name))
    return model


def build(
    architecture: Architecture, traits: Traits, dtype: torch.dtype
) -> HeterogeneousForCausalLM:
    """A model with random weights (torch's global generator), in evaluation mode, on the CPU."""
    config = configuration(architecture, traits)
    model: HeterogeneousForCausalLM = HeterogeneousForCausalLM._from_config(config, dtype=dtype)
    model.eval()
    return model


def empty(
    architecture: Architecture, traits: Traits, dtype: torch.dtype
) -> HeterogeneousForCausalLM:
    """A model whose weights hold whatever was in memory, to be filled; in evaluation mode."""
    config = configuration(architecture, traits)
    with initialization.no_init_weights():
        model: HeterogeneousForCausalLM = HeterogeneousForCausalLM._from_config(config, dtype=dtype)
    model.tie_weights()
    model.eval()
    return model


def save(model: HeterogeneousForCausalLM, directory: Path, companions: Path | None) -> None:
    """Write a model in our own format; ``companions`` is a folder with tokenizer and the like.

    Raises:
        DiskFullError: when there is no space left.
    """
    write_tensors(directory, ((name, value) for name, value in model.named_parameters()))
    write_own_config(directory, model.architecture, model.traits, model.dtype)
    if companions is not None:
        copy_companions(companions, directory)


def write_own_config(
    directory: Path, architecture: Architecture, traits: Traits, dtype: torch.dtype
) -> None:
    """Write the ``config.json`` of our own format for weights of type ``dtype``."""
    config = configuration(architecture, traits)
    config.dtype = dtype
    config.save_pretrained(directory)


def copy_companions(source: Path, destination: Path) -> None:
    """Copy tokenizer, generation settings, chat template and licence, as far as they are there."""
    destination.mkdir(parents=True, exist_ok=True)
    for name in COMPANIONS:
        if (source / name).is_file():
            shutil.copyfile(source / name, destination / name)


def _canonical_names(config: Config) -> Callable[[str], str | None]:
    if config.get("model_type") == MODEL_TYPE:
        return lambda name: name
    return identify(config).tensors.canonical


def _match(
    architecture: Architecture,
    tensors: TensorFiles,
    canonical: Callable[[str], str | None],
    directory: Path,
) -> dict[str, str]:
    expected = tensor_shapes(architecture)
    stored: dict[str, str] = {}
    for name, shape in tensors.shapes.items():
        own = canonical(name)
        # A tied head is the embedding; files that store it again are read as if they did not.
        if own is None or (own == _HEAD and architecture.tied_embeddings):
            continue
        if own not in expected:
            raise DataError(
                f"{directory}: tensor {name} has no place in the model that {CONFIG_FILE} "
                f"describes; the two do not belong together"
            )
        if shape != expected[own]:
            raise DataError(
                f"{directory}: tensor {name} has shape {list(shape)}, but {CONFIG_FILE} asks for "
                f"{list(expected[own])}; correct the configuration or take its own weights"
            )
        stored[own] = name
    missing = [name for name in expected if name not in stored]
    if missing:
        raise DataError(
            f"{directory}: {len(missing)} of {len(expected)} tensors are missing, the first is "
            f"{missing[0]} (canonical name); copy or download the checkpoint again"
        )
    return stored
