"""A parent looked at without fetching its weights: its configuration, and which content it is."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from autocompress.contract.errors import DataError, SpecError
from autocompress.domain.job import ModelSource
from autocompress.sources.fetch import require_safetensors
from autocompress.sources.hub import hub_config
from autocompress.sources.package import find_packaged_model
from autocompress.sources.revision import local_folder, resolve_revision
from autocompress.store.opening import open_store

_CONFIG = "config.json"


@dataclass(frozen=True, kw_only=True)
class Look:
    """What can be told here. ``left`` says what cannot, and why; it is empty if nothing is left.

    ``revision`` is None where all weights would have to be read to tell it.
    """

    config: Mapping[str, object] | None = None
    revision: str | None = None
    left: str = ""


def look_at(source: ModelSource, cache_dir: Path) -> Look:
    """Read the configuration of a parent.

    Raises:
        DataError: nothing that could be a model is there, or not the revision that was asked for.
        UnavailableError, AccessError: the bucket or the hub cannot be reached.
        SpecError: the URI is malformed.
    """
    match source.uri.partition(":")[0]:
        case "file":
            folder = local_folder(source.uri)
            require_safetensors(folder)
            return Look(config=_parse((folder / _CONFIG).read_bytes(), source))
        case "s3":
            return _look_into_bucket(source, cache_dir)
        case "hf":
            if importlib.util.find_spec("huggingface_hub") is None:
                return Look(left=f"{source.uri}: the client of the hub is not installed here")
            path = hub_config(source)
            revision = resolve_revision(source, cache_dir)
            return Look(config=_parse(path.read_bytes(), source), revision=revision)
        case _:
            return _look_for_package(source)


def _look_into_bucket(source: ModelSource, cache_dir: Path) -> Look:
    store = open_store(source.uri)
    revision = resolve_revision(source, cache_dir)
    try:
        config = _parse(store.get(_CONFIG), source)
    except KeyError:
        raise DataError(
            f"spec.source.uri: {source.uri} has no {_CONFIG}; give the prefix of a model's files"
        ) from None
    if not any(key.endswith(".safetensors") and "/" not in key for key in store.keys("")):
        raise DataError(
            f"spec.source.uri: {source.uri} holds no weights (*.safetensors); give the prefix of a "
            "whole model"
        )
    return Look(config=config, revision=revision)


def _look_for_package(source: ModelSource) -> Look:
    try:
        find_packaged_model(source.uri)
    except SpecError:
        return Look(left=f"{source.uri}: the package is not installed here")
    # Sizes are inside the model file, among the weights.
    return Look(left=f"{source.uri}: its configuration is read together with its weights")


def _parse(data: bytes, source: ModelSource) -> Mapping[str, object]:
    try:
        config = json.loads(data)
    except ValueError as error:
        raise DataError(
            f"spec.source.uri: {_CONFIG} of {source.uri} is not JSON: {error}"
        ) from error
    if not isinstance(config, dict):
        raise DataError(f"spec.source.uri: {_CONFIG} of {source.uri} holds no JSON object")
    return config
