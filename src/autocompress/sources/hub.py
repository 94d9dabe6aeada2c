"""Models of the Hugging Face hub: which commit is meant, and its files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autocompress.contract.errors import AccessError, DataError, UnavailableError
from autocompress.domain.job import ModelSource

_COMMIT = re.compile(r"[0-9a-f]{40}")


def hub_commit(source: ModelSource) -> str:
    """The commit that a reference means: the one in the local cache, else the hub's newest.

    Raises:
        UnavailableError: the hub cannot be reached and the model is not in the local cache.
        DataError: there is no such model or revision.
        AccessError: the model asks for a token.
    """
    from huggingface_hub import HfApi, try_to_load_from_cache

    name, revision = _name(source), source.revision or "main"
    if _COMMIT.fullmatch(revision):
        return revision
    cached = try_to_load_from_cache(name, "config.json", revision=revision)
    if isinstance(cached, str):
        return Path(cached).parent.name
    with _translated(source):
        return str(HfApi().model_info(name, revision=revision).sha)


def hub_config(source: ModelSource) -> Path:
    """The ``config.json`` of ``hub_commit``, fetched if need be; nothing else is.

    Raises:
        UnavailableError, DataError, AccessError: as ``hub_commit``.
    """
    from huggingface_hub import hf_hub_download

    commit = hub_commit(source)
    with _translated(source):
        return Path(hf_hub_download(_name(source), "config.json", revision=commit))


def hub_snapshot(source: ModelSource, patterns: list[str]) -> Path:
    """A folder with the files of ``hub_commit`` that match ``patterns``, fetched if need be.

    Raises:
        UnavailableError, DataError, AccessError: as ``hub_commit``.
    """
    from huggingface_hub import HfApi, snapshot_download, try_to_load_from_cache

    name, commit = _name(source), hub_commit(source)
    cached = try_to_load_from_cache(name, "config.json", revision=commit)
    if isinstance(cached, str) and _is_whole(Path(cached).parent):
        return Path(cached).parent
    with _translated(source):
        # Without retries, so that a machine without network is told at once.
        HfApi().model_info(name, revision=commit)
        return Path(snapshot_download(name, revision=commit, allow_patterns=patterns))


def _is_whole(snapshot: Path) -> bool:
    try:
        index = json.loads((snapshot / "model.safetensors.index.json").read_text())
        weights = all((snapshot / shard).exists() for shard in index["weight_map"].values())
    except (OSError, ValueError, KeyError):
        weights = any(snapshot.glob("*.safetensors"))
    return weights and any(snapshot.glob("tokenizer*"))


def _name(source: ModelSource) -> str:
    return source.uri.removeprefix("hf://")


@contextmanager
def _translated(source: ModelSource) -> Iterator[None]:
    from huggingface_hub.errors import (
        GatedRepoError,
        RemoteEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    name, revision = _name(source), source.revision or "main"
    try:
        yield
    except GatedRepoError as error:
        raise AccessError(
            f"spec.source.uri: {name} asks for a token; accept its terms on the hub, set HF_TOKEN"
        ) from error
    except (RepositoryNotFoundError, RevisionNotFoundError) as error:
        raise DataError(
            f"spec.source: the hub has no {name} at revision {revision}, or access needs a token "
            "(HF_TOKEN)"
        ) from error
    except RemoteEntryNotFoundError as error:
        raise DataError(
            f"spec.source: {name} has no config.json at revision {revision}; give a model"
        ) from error
    except Exception as error:  # the hub's client lets its HTTP library's exceptions through
        raise UnavailableError(
            f"spec.source.uri: the Hugging Face hub cannot be reached ({_first_line(error)}), and "
            f"{name} is not in the local cache; download it elsewhere and give its folder"
        ) from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
