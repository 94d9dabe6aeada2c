"""Cost tables as one file, to carry them from one store to another."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from autocompress.contract import documents
from autocompress.contract.stage import Manifest
from autocompress.cost.table import (
    HELD_OUT_FILE,
    PARENT_COSTS_FILE,
    SPACE_FILE,
    TABLE_FILE,
    CostTable,
    read_file,
    table_key,
    table_prefix,
)
from autocompress.domain.costs import MeasuredCosts
from autocompress.domain.records import HeldOutReport
from autocompress.domain.space import SearchSpace
from autocompress.store import artifacts
from autocompress.store.protocol import Store

#: The kind of the artifact in a store.
KIND = "cost-table"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Bundle:
    space: SearchSpace
    table: CostTable
    parent_costs: MeasuredCosts
    held_out: HeldOutReport


def bundle(folder: Path) -> bytes:
    """The documents of a profile's output as one JSON document.

    Raises:
        DataError: one is missing or not valid.
    """
    return documents.dump(
        _Bundle(
            space=documents.load(SearchSpace, read_file(folder, SPACE_FILE), name=SPACE_FILE),
            table=documents.load(CostTable, read_file(folder, TABLE_FILE), name=TABLE_FILE),
            parent_costs=documents.load(
                MeasuredCosts, read_file(folder, PARENT_COSTS_FILE), name=PARENT_COSTS_FILE
            ),
            held_out=documents.load(
                HeldOutReport, read_file(folder, HELD_OUT_FILE), name=HELD_OUT_FILE
            ),
        )
    )


def unbundle(store: Store, data: bytes, *, name: str) -> str:
    """Publish what ``bundle`` made; returns the prefix, under which profiles of the same
    conditions, space, workload and parent find it.

    Raises:
        DataError: ``data`` is no such document; ``name`` is its name for the message.
    """
    content = documents.load(_Bundle, data, name=name)
    table = content.table
    key = table_key(table.conditions, content.space, table.workload, table.source_revision)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_shared(
            folder, table=table, parent_costs=content.parent_costs, held_out=content.held_out
        )
        publish_shared(store, folder, key)
    return table_prefix(key)


def write_shared(
    folder: Path, *, table: CostTable, parent_costs: MeasuredCosts, held_out: HeldOutReport
) -> None:
    """The files of a shared table."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / TABLE_FILE).write_bytes(documents.dump(table))
    (folder / PARENT_COSTS_FILE).write_bytes(documents.dump(parent_costs))
    (folder / HELD_OUT_FILE).write_bytes(documents.dump(held_out))


def publish_shared(store: Store, folder: Path, key: str) -> Manifest:
    """Put the files of a shared table into a store, for every job of the same key; returns the
    manifest that counts (another job may have been faster).
    """
    return artifacts.publish(store, table_prefix(key), folder, kind=KIND, input_digest=key)
