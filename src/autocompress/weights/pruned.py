"""The model that a search chose, before recovery: cut out of the store's reordered parent."""

from __future__ import annotations

import tempfile
from pathlib import Path

from autocompress.contract.documents import load
from autocompress.contract.stage import Manifest, Stage
from autocompress.domain.architecture import Architecture
from autocompress.stages.execute import stage_prefix
from autocompress.store import artifacts
from autocompress.store.protocol import Store
from autocompress.weights.slicing import slice_reordered

_REORDERED = "reordered.json"
_ARCHITECTURE = "architecture.json"


def read_chosen(search: Path) -> Architecture:
    """The architecture that the search left in its output folder."""
    return load(Architecture, (search / _ARCHITECTURE).read_bytes(), name=_ARCHITECTURE)


def slice_chosen(store: Store, searched: Manifest, search: Path, destination: Path) -> None:
    """Write the chosen architecture with the parent's own weights.

    ``searched`` and ``search`` are the search's manifest and its output folder.

    Raises:
        CorruptArtifactError: the reordered parent is gone from the store.
        DataError: the reordered parent cannot be read.
        DiskFullError: there is no space left.
    """
    where = load(artifacts.Reference, (search / _REORDERED).read_bytes(), name=_REORDERED)
    manifest = artifacts.resolve(store, where)
    if manifest is None:
        # The search's record points to nothing: without it, the next try makes both anew.
        artifacts.discard(store, stage_prefix(Stage.SEARCH, searched.input_digest))
        raise artifacts.CorruptArtifactError(
            f"{store.uri}: the reordered parent {where.prefix} is gone or damaged; the "
            "search's result was discarded, run again to make both anew"
        )
    with tempfile.TemporaryDirectory(dir=destination.parent, prefix="reordered-") as folder:
        artifacts.fetch(store, where.prefix, manifest, Path(folder))
        slice_reordered(Path(folder), read_chosen(search), destination)
