"""The cost table: what was measured, under which conditions, and the costs per block fitted to
it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from autocompress.contract import documents
from autocompress.contract.digest import digest
from autocompress.contract.errors import DataError
from autocompress.domain.architecture import Attention, Block, Mlp
from autocompress.domain.deployment import Workload
from autocompress.domain.space import SearchSpace
from autocompress.engines.vllm.conditions import Conditions

#: Bumped when the way of measuring or fitting changes: tables of before are not found again.
METHOD_VERSION = 5

TABLE_FILE = "cost_table.json"
SPACE_FILE = "space.json"
PARENT_COSTS_FILE = "parent_costs.json"
HELD_OUT_FILE = "held_out.json"


class Phase(StrEnum):
    """The two kinds of engine steps."""

    PREFILL = "prefill"
    DECODE = "decode"


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockCount:
    """How often a model holds a block."""

    block: Attention | Mlp
    count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One measured model in one phase.

    ``tokens``: computed per sequence in the timed step; ``context_tokens``: in its context, at
    the middle of the timed steps. ``seconds`` is the 10th percentile of step times over all
    repeats, ``spread_seconds`` the range of that of single repeats.
    """

    model: str
    hidden_size: int
    blocks: tuple[BlockCount, ...]
    phase: Phase
    tokens: int
    batch: int
    context_tokens: int
    seconds: float
    spread_seconds: float
    repeats: int


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryEntry:
    """Memory of one measured model in bytes: peak resident, exact weights, exact KV cache."""

    model: str
    hidden_size: int
    blocks: tuple[BlockCount, ...]
    peak_bytes: int
    weight_bytes: int
    kv_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseCost:
    """Fitted time in seconds and its standard error."""

    seconds: float
    error_seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockCost:
    """What one block adds. ``buffer_bytes``: memory beyond its weights and KV cache."""

    block: Attention | Mlp
    hidden_size: int
    prefill: PhaseCost
    decode: PhaseCost
    buffer_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Overhead:
    """What is outside blocks at one hidden size: embedding, head, sampler, scheduler; runtime and
    workspace (``buffer_bytes``, without the embeddings' own weights).
    """

    hidden_size: int
    prefill: PhaseCost
    decode: PhaseCost
    buffer_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class CostTable:
    """Everything a cost model needs, in the engine, without HTTP.

    ``bytes_per_element``, ``kv_block_tokens`` and ``kv_blocks`` are the engine's; ``workload`` is
    the shape at which times were taken.
    """

    method_version: int
    source_revision: str
    conditions: Conditions
    workload: Workload
    bytes_per_element: int
    kv_block_tokens: int
    kv_blocks: int
    entries: tuple[Entry, ...]
    memory: tuple[MemoryEntry, ...]
    blocks: tuple[BlockCost, ...]
    overheads: tuple[Overhead, ...]


def table_key(
    conditions: Conditions, space: SearchSpace, workload: Workload, source_revision: str
) -> str:
    """What a table and the parent costs beside it are found by."""
    return digest(
        {
            "method": METHOD_VERSION,
            "conditions": conditions,
            "space": space,
            "workload": workload,
            "source": source_revision,
        }
    )


def table_prefix(key: str) -> str:
    """Where the artifact of ``key`` lies in a store."""
    return f"shared/cost-table/{key.removeprefix('sha256:')[:32]}"


def read_table(folder: Path) -> CostTable:
    """The table of a profile's output.

    Raises:
        DataError: there is none, or it is not valid.
    """
    return documents.load(CostTable, read_file(folder, TABLE_FILE), name=TABLE_FILE)


def read_file(folder: Path, name: str) -> bytes:
    """One document of a profile's output.

    Raises:
        DataError: it is not there.
    """
    try:
        return (folder / name).read_bytes()
    except OSError as error:
        raise DataError(f"{folder} has no readable {name}: {error}") from error


def count_blocks(blocks: tuple[Block, ...]) -> tuple[BlockCount, ...]:
    """Blocks that compute something, each with its count, in order of first appearance."""
    counts: dict[Attention | Mlp, int] = {}
    for block in blocks:
        if isinstance(block, Attention | Mlp):
            counts[block] = counts.get(block, 0) + 1
    return tuple(BlockCount(block=block, count=count) for block, count in counts.items())
