"""A cost table as rows of text. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from autocompress.cost.table import BlockCost, CostTable, Overhead, PhaseCost
from autocompress.domain.architecture import Attention, Block


@dataclass(frozen=True, kw_only=True, slots=True)
class Rows:
    """What to print: column names, rows of equal length, and lines that explain them."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]


def table_rows(table: CostTable) -> Rows:
    """One row per block and hidden size, and per overhead; times in milliseconds."""
    conditions, work = table.conditions, table.workload
    return Rows(
        header=(*("block", "size", "hidden", "prefill ms", "±", "decode ms", "±", "buffers MiB"),),
        rows=(
            *(_row("outside blocks", "", item) for item in table.overheads),
            *(_row(item.block.kind, size_text(item.block), item) for item in table.blocks),
        ),
        notes=(
            f"prefill: {work.concurrency} x {work.prompt_tokens} tokens; decode: batch "
            f"{work.concurrency}, {work.prompt_tokens + work.output_tokens // 2} tokens of context",
            f"{conditions.engine} {conditions.engine_version}, torch {conditions.torch_version}, "
            f"{conditions.precision}, {conditions.threads} thread on {conditions.device}",
            f"fitted to {len({entry.model for entry in table.entries})} models measured in the "
            "engine; ± is one standard error",
        ),
    )


def size_text(block: Block) -> str:
    """``9 q / 3 kv x 64`` or ``1536``."""
    if isinstance(block, Attention):
        return f"{block.query_heads} q / {block.kv_heads} kv x {block.head_dim}"
    return str(block.intermediate_size) if block.kind == "mlp" else ""


def _row(name: str, size: str, item: BlockCost | Overhead) -> tuple[str, ...]:
    return (
        name,
        size,
        str(item.hidden_size),
        *_milliseconds(item.prefill),
        *_milliseconds(item.decode),
        f"{item.buffer_bytes / 2**20:.1f}",
    )


def _milliseconds(cost: PhaseCost) -> tuple[str, str]:
    return f"{cost.seconds * 1000:.3f}", f"{cost.error_seconds * 1000:.3f}"
