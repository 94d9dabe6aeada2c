"""Predicts what an architecture costs on the deployment. Every cost is a sum over blocks.

In the engine, a step takes the overhead of the hidden size plus the sum over blocks
(``cost.fit``). The deployment is slower by a factor of its own for each phase: what the parent
measured on the server over the same sum for the parent. It is a factor rather than a constant
because what slows a step down are processes beside it that share memory and cores (on two cores
vLLM's scheduler keeps one busy: the parent took 1.76 times its steps, and a model of 0.71 times the
parent's steps measured 0.70 times the parent's time). Memory has a constant: measured less the sum.
The model therefore equals the measurement at the parent. Then, with n output tokens,

* end-to-end latency = time to first token + (n - 1) x time per output token,
* seconds per output token of the whole server = end-to-end latency / (concurrency x n),

and every percentile is the central value times the ratio that the parent measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from autocompress.contract import documents
from autocompress.contract.errors import DataError
from autocompress.cost.table import (
    HELD_OUT_FILE,
    PARENT_COSTS_FILE,
    SPACE_FILE,
    BlockCost,
    CostTable,
    Overhead,
    read_file,
    read_table,
)
from autocompress.domain.architecture import Architecture, Attention, Block, Mlp, Skip
from autocompress.domain.budget import PERCENTILES, Limit, Metric
from autocompress.domain.costs import MeasuredCosts, Percentiles, PredictedCosts
from autocompress.domain.deployment import Workload
from autocompress.domain.records import HeldOutReport
from autocompress.domain.space import SearchSpace


@dataclass(frozen=True, kw_only=True, slots=True)
class AdditiveCost:
    """One limit's metric as a sum: ``overhead[h] + sum over i of blocks[h][i][c_i]``.

    ``h`` indexes ``space.hidden_size``, ``i`` the blocks and ``c`` the candidates of a block in
    the order of ``space.blocks[i].candidates()``. Seconds, bytes, or for throughput seconds per
    token.
    """

    overhead: tuple[float, ...]
    blocks: tuple[tuple[tuple[float, ...], ...], ...]


@dataclass(frozen=True, slots=True)
class _Terms:
    """A sum of central values: of the two times in seconds, and of memory in bytes."""

    first_token: float
    per_token: float
    memory: int

    def __add__(self, other: _Terms) -> _Terms:
        return _Terms(
            self.first_token + other.first_token,
            self.per_token + other.per_token,
            self.memory + other.memory,
        )


class _EngineSums:
    """Sums over a table's costs: what the engine takes, without what serving adds."""

    def __init__(self, table: CostTable) -> None:
        self._table = table
        self._overheads: Mapping[int, Overhead] = {o.hidden_size: o for o in table.overheads}
        self._blocks: Mapping[tuple[int, Block], BlockCost] = {
            (item.hidden_size, item.block): item for item in table.blocks
        }

    def whole(self, architecture: Architecture) -> _Terms:
        total = self.outside(architecture.hidden_size, architecture)
        for block in architecture.blocks:
            total += self.block(block, architecture.hidden_size)
        return total

    def outside(self, hidden_size: int, like: Architecture) -> _Terms:
        try:
            cost = self._overheads[hidden_size]
        except KeyError:
            raise DataError(
                f"the cost table has no hidden size {hidden_size}; it has "
                f"{', '.join(map(str, self._overheads))}"
            ) from None
        bare = Architecture(
            hidden_size=hidden_size,
            vocab_size=like.vocab_size,
            tied_embeddings=like.tied_embeddings,
            blocks=(),
        )
        return _Terms(
            cost.prefill.seconds,
            cost.decode.seconds,
            cost.buffer_bytes + bare.weight_bytes(self._table.bytes_per_element),
        )

    def block(self, block: Block, hidden_size: int) -> _Terms:
        if isinstance(block, Skip):
            return _Terms(0.0, 0.0, 0)
        assert isinstance(block, Attention | Mlp)
        try:
            cost = self._blocks[hidden_size, block]
        except KeyError:
            raise DataError(f"the cost table has no {block} at hidden size {hidden_size}") from None
        table = self._table
        kept_tokens = table.kv_blocks * table.kv_block_tokens
        return _Terms(
            cost.prefill.seconds,
            cost.decode.seconds,
            cost.buffer_bytes
            + table.bytes_per_element
            * (block.parameters(hidden_size) + kept_tokens * block.kv_elements_per_token()),
        )


@dataclass(frozen=True, kw_only=True)
class CostModel:
    """See the module. ``parent_costs`` are those of ``parent``, measured on the server."""

    table: CostTable
    parent: Architecture
    parent_costs: MeasuredCosts
    held_out: HeldOutReport

    def predict(self, architecture: Architecture, workload: Workload) -> PredictedCosts:
        """The costs of ``architecture``.

        Raises:
            DataError: the table was measured for another workload, or has not one of the blocks.
        """
        self._check_workload(workload)
        terms = self._served(self._sums.whole(architecture)) + self._serving_memory
        end_to_end = self._end_to_end(terms)
        return PredictedCosts(
            time_to_first_token=_scaled(
                self._ratios[Metric.TIME_TO_FIRST_TOKEN], terms.first_token
            ),
            time_per_output_token=_scaled(
                self._ratios[Metric.TIME_PER_OUTPUT_TOKEN], terms.per_token
            ),
            end_to_end_latency=_scaled(self._ratios[Metric.END_TO_END_LATENCY], end_to_end),
            output_tokens_per_second=1 / (self._seconds_per_token_ratio * end_to_end),
            memory_bytes=terms.memory,
        )

    def additive(self, limit: Limit, space: SearchSpace) -> AdditiveCost:
        """The metric of ``limit`` as a sum over the choices of ``space``, equal to ``predict``.

        Raises:
            DataError: the table has not one of the blocks.
        """
        constant = self._metric(limit, self._serving_memory)
        overhead = []
        blocks = []
        for hidden in space.hidden_size:
            outside = self._sums.outside(hidden, space.parent)
            overhead.append(constant + self._metric(limit, self._served(outside)))
            # Blocks of one size share their candidates: worked out once for all layers.
            known: dict[Block, float] = {}
            rows = []
            for choices in space.blocks:
                row = []
                for candidate in choices.candidates():
                    if candidate not in known:
                        terms = self._served(self._sums.block(candidate, hidden))
                        known[candidate] = self._metric(limit, terms)
                    row.append(known[candidate])
                rows.append(tuple(row))
            blocks.append(tuple(rows))
        return AdditiveCost(overhead=tuple(overhead), blocks=tuple(blocks))

    @cached_property
    def error(self) -> Mapping[Metric, float]:
        """Median relative error on held-out architectures, by metric; of a metric made of both
        phases, the larger.
        """
        report = self.held_out
        mixed = max(report.prefill.median, report.decode.median)
        return {
            Metric.TIME_TO_FIRST_TOKEN: report.prefill.median,
            Metric.TIME_PER_OUTPUT_TOKEN: report.decode.median,
            Metric.END_TO_END_LATENCY: mixed,
            Metric.OUTPUT_THROUGHPUT: mixed,
            Metric.MEMORY: report.memory.median,
        }

    def _check_workload(self, workload: Workload) -> None:
        if workload != self.table.workload:
            raise DataError(
                f"the cost table was measured for {self.table.workload}, not for {workload}; "
                "run the profile stage for this workload"
            )

    @cached_property
    def _sums(self) -> _EngineSums:
        return _EngineSums(self.table)

    @cached_property
    def _slowdown(self) -> tuple[float, float]:
        """Prefill and decode on the server over those of the engine's steps, at the parent."""
        steps, measured = self._sums.whole(self.parent), self.parent_costs
        return (
            measured.time_to_first_token.p50 / steps.first_token,
            measured.time_per_output_token.p50 / steps.per_token,
        )

    def _served(self, steps: _Terms) -> _Terms:
        """What the deployment makes of times in the engine; linear, so that sums stay sums."""
        first_token, per_token = self._slowdown
        return _Terms(first_token * steps.first_token, per_token * steps.per_token, steps.memory)

    @cached_property
    def _serving_memory(self) -> _Terms:
        extra = self.parent_costs.memory_bytes - self._sums.whole(self.parent).memory
        return _Terms(0.0, 0.0, extra)

    @cached_property
    def _ratios(self) -> Mapping[Metric, Percentiles]:
        measured = self.parent_costs
        first, per = measured.time_to_first_token, measured.time_per_output_token
        end_to_end = first.p50 + (self.table.workload.output_tokens - 1) * per.p50
        return {
            Metric.TIME_TO_FIRST_TOKEN: _scaled(first, 1 / first.p50),
            # With one output token there is no later one, and the time is 0.
            Metric.TIME_PER_OUTPUT_TOKEN: (
                _scaled(per, 1 / per.p50)
                if per.p50
                else Percentiles(mean=1.0, p50=1.0, p90=1.0, p95=1.0, p99=1.0)
            ),
            Metric.END_TO_END_LATENCY: _scaled(measured.end_to_end_latency, 1 / end_to_end),
        }

    @cached_property
    def _seconds_per_token_ratio(self) -> float:
        """Seconds per output token of the server over end-to-end latency, at the parent; near
        1 / (concurrency x output tokens).
        """
        measured = self.parent_costs
        work = self.table.workload
        end_to_end = (
            measured.time_to_first_token.p50
            + (work.output_tokens - 1) * measured.time_per_output_token.p50
        )
        return 1 / (measured.output_tokens_per_second * end_to_end)

    def _end_to_end(self, terms: _Terms) -> float:
        return terms.first_token + (self.table.workload.output_tokens - 1) * terms.per_token

    def _metric(self, limit: Limit, terms: _Terms) -> float:
        """Linear in ``terms``, so that the metric of a sum is the sum of metrics."""
        if limit.metric is Metric.MEMORY:
            return float(terms.memory)
        if limit.metric is Metric.OUTPUT_THROUGHPUT:
            return self._seconds_per_token_ratio * self._end_to_end(terms)
        central = {
            Metric.TIME_TO_FIRST_TOKEN: terms.first_token,
            Metric.TIME_PER_OUTPUT_TOKEN: terms.per_token,
            Metric.END_TO_END_LATENCY: self._end_to_end(terms),
        }[limit.metric]
        assert limit.percentile in PERCENTILES
        return self._ratios[limit.metric].at(limit.percentile) * central


@dataclass(frozen=True, kw_only=True, slots=True)
class StepCosts:
    """An architecture in the engine alone, as the step-timing process measures it."""

    prefill_seconds: float
    decode_seconds: float
    memory_bytes: int


def step_costs(table: CostTable, architecture: Architecture) -> StepCosts:
    """What the engine takes for ``architecture``, without HTTP and scheduling processes.

    Raises:
        DataError: the table has not one of the blocks.
    """
    terms = _EngineSums(table).whole(architecture)
    return StepCosts(
        prefill_seconds=terms.first_token,
        decode_seconds=terms.per_token,
        memory_bytes=terms.memory,
    )


def load_model(folder: Path) -> CostModel:
    """The cost model of a profile's output.

    Raises:
        DataError: a document is missing or not valid.
    """
    space = documents.load(SearchSpace, read_file(folder, SPACE_FILE), name=SPACE_FILE)
    return CostModel(
        table=read_table(folder),
        parent=space.parent,
        parent_costs=documents.load(
            MeasuredCosts, read_file(folder, PARENT_COSTS_FILE), name=PARENT_COSTS_FILE
        ),
        held_out=documents.load(
            HeldOutReport, read_file(folder, HELD_OUT_FILE), name=HELD_OUT_FILE
        ),
    )


def smallest_reachable(
    model: CostModel, space: SearchSpace, limit: Limit, workload: Workload
) -> float:
    """The best value of the limit's metric that any architecture of ``space`` is predicted to have,
    in base units (for throughput the largest).

    Raises:
        DataError: see ``CostModel``.
    """
    model.predict(space.parent, workload)
    cost = model.additive(limit, space)
    least = min(
        overhead + sum(min(row) for row in rows)
        for overhead, rows in zip(cost.overhead, cost.blocks, strict=True)
    )
    return 1 / least if limit.metric is Metric.OUTPUT_THROUGHPUT else least


def _scaled(values: Percentiles, factor: float) -> Percentiles:
    return Percentiles(
        mean=values.mean * factor,
        p50=values.p50 * factor,
        p90=values.p90 * factor,
        p95=values.p95 * factor,
        p99=values.p99 * factor,
    )
