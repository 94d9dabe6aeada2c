"""From measured models to the cost table and the report on held-out architectures. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from autocompress.cost.errors import held_out_report
from autocompress.cost.fit import Observation, Shape, fit_buffers, fit_times
from autocompress.cost.interpolation import block_between, overhead_between
from autocompress.cost.model import step_costs
from autocompress.cost.table import (
    METHOD_VERSION,
    BlockCost,
    BlockCount,
    CostTable,
    Entry,
    MemoryEntry,
    Overhead,
    Phase,
    PhaseCost,
    count_blocks,
)
from autocompress.domain.deployment import Workload
from autocompress.domain.records import HeldOutPoint, HeldOutReport
from autocompress.engines.vllm.arguments import KV_BLOCK_TOKENS, kv_blocks
from autocompress.engines.vllm.conditions import Conditions
from autocompress.profile.measure import MeasuredModel, StepTimes
from autocompress.profile.plan import ProfilingPlan


def make_table(
    plan: ProfilingPlan,
    measured: Mapping[str, MeasuredModel],
    *,
    conditions: Conditions,
    source_revision: str,
    workload: Workload,
    bytes_per_element: int,
) -> CostTable:
    """Fit the plan's unknowns to the models that were measured for it."""
    fitted = [measured[planned.name] for planned in plan.fitted]
    vocab_size = plan.fitted[0].architecture.vocab_size
    work = workload
    middle = work.prompt_tokens + work.output_tokens // 2
    prefill = fit_times(
        [_observation(m, m.prefill) for m in fitted],
        plan.unknowns,
        Shape(
            vocab_size=vocab_size,
            tokens=work.prompt_tokens,
            batch=work.concurrency,
            context_tokens=work.prompt_tokens,
        ),
    )
    decode = fit_times(
        [_observation(m, m.decode) for m in fitted],
        plan.unknowns,
        Shape(vocab_size=vocab_size, tokens=1, batch=work.concurrency, context_tokens=middle),
    )
    buffers = fit_buffers(
        [_content(m) for m in fitted],
        [m.peak_bytes - m.weight_bytes - m.kv_bytes for m in fitted],
        plan.unknowns,
        vocab_size=vocab_size,
        bytes_per_element=bytes_per_element,
    )
    costs = [
        (unknown, PhaseCost(seconds=p, error_seconds=pe), PhaseCost(seconds=d, error_seconds=de), b)
        for unknown, p, pe, d, de, b in zip(
            plan.unknowns,
            *(prefill.seconds, prefill.errors, decode.seconds, decode.errors, buffers),
            strict=True,
        )
    ]
    blocks = [
        BlockCost(block=u.block, hidden_size=u.hidden_size, prefill=p, decode=d, buffer_bytes=b)
        for u, p, d, b in costs
        if u.block is not None
    ]
    overheads = [
        Overhead(hidden_size=u.hidden_size, prefill=p, decode=d, buffer_bytes=b)
        for u, p, d, b in costs
        if u.block is None
    ]
    return CostTable(
        method_version=METHOD_VERSION,
        source_revision=source_revision,
        conditions=conditions,
        workload=workload,
        bytes_per_element=bytes_per_element,
        kv_block_tokens=KV_BLOCK_TOKENS,
        kv_blocks=kv_blocks(workload),
        entries=tuple(entry for m in fitted for entry in _entries(m, work)),
        memory=tuple(_memory(m) for m in fitted),
        blocks=(*blocks, *_blocks_between(blocks, plan.between)),
        overheads=(*overheads, *_overheads_between(overheads, plan.between)),
    )


def _blocks_between(measured: Sequence[BlockCost], sizes: Sequence[int]) -> Iterator[BlockCost]:
    for size in sizes:
        for smaller in measured:
            for larger in measured:
                if smaller.block == larger.block and smaller.hidden_size < larger.hidden_size:
                    yield block_between(smaller, larger, size)


def _overheads_between(measured: Sequence[Overhead], sizes: Sequence[int]) -> Iterator[Overhead]:
    smaller, larger = (f(measured, key=lambda each: each.hidden_size) for f in (min, max))
    for size in sizes:
        yield overhead_between(smaller, larger, size)


def judge_table(
    table: CostTable, plan: ProfilingPlan, measured: Mapping[str, MeasuredModel]
) -> HeldOutReport:
    """Predict the held-out architectures of the plan and compare."""
    points = []
    for planned in plan.held_out:
        seen = measured[planned.name]
        predicted = step_costs(table, planned.architecture)
        points.append(
            HeldOutPoint(
                architecture=planned.architecture,
                predicted_prefill_seconds=predicted.prefill_seconds,
                measured_prefill_seconds=seen.prefill.seconds,
                predicted_decode_seconds=predicted.decode_seconds,
                measured_decode_seconds=seen.decode.seconds,
                predicted_memory_bytes=predicted.memory_bytes,
                measured_memory_bytes=seen.peak_bytes,
            )
        )
    return held_out_report(points)


def _content(model: MeasuredModel) -> tuple[int, tuple[BlockCount, ...]]:
    architecture = model.planned.architecture
    return architecture.hidden_size, count_blocks(architecture.blocks)


def _observation(model: MeasuredModel, times: StepTimes) -> Observation:
    architecture = model.planned.architecture
    return Observation(
        hidden_size=architecture.hidden_size,
        blocks=count_blocks(architecture.blocks),
        seconds=times.seconds,
        # The range of two to four repeats is one to two standard deviations.
        error_seconds=times.spread_seconds / 2,
    )


def _entries(model: MeasuredModel, work: Workload) -> tuple[Entry, Entry]:
    architecture = model.planned.architecture
    prefill, decode = (
        Entry(
            model=model.planned.name,
            hidden_size=architecture.hidden_size,
            blocks=count_blocks(architecture.blocks),
            phase=phase,
            tokens=tokens,
            batch=work.concurrency,
            context_tokens=context,
            seconds=times.seconds,
            spread_seconds=times.spread_seconds,
            repeats=model.repeats,
        )
        for phase, times, tokens, context in (
            (Phase.PREFILL, model.prefill, work.prompt_tokens, work.prompt_tokens),
            (Phase.DECODE, model.decode, 1, work.prompt_tokens + work.output_tokens // 2),
        )
    )
    return prefill, decode


def _memory(model: MeasuredModel) -> MemoryEntry:
    architecture = model.planned.architecture
    return MemoryEntry(
        model=model.planned.name,
        hidden_size=architecture.hidden_size,
        blocks=count_blocks(architecture.blocks),
        peak_bytes=model.peak_bytes,
        weight_bytes=model.weight_bytes,
        kv_bytes=model.kv_bytes,
    )
