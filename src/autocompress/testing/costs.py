"""A cost model with made-up, plausible costs, for tests that need one without an engine."""

from __future__ import annotations

from autocompress.cost.errors import held_out_report
from autocompress.cost.model import CostModel
from autocompress.cost.table import METHOD_VERSION, BlockCost, CostTable, Overhead, PhaseCost
from autocompress.domain.architecture import Attention, Mlp
from autocompress.domain.costs import MeasuredCosts, Percentiles
from autocompress.domain.deployment import Workload
from autocompress.domain.records import HeldOutPoint
from autocompress.domain.space import SearchSpace
from autocompress.engines.vllm.arguments import KV_BLOCK_TOKENS, kv_blocks
from autocompress.engines.vllm.conditions import Conditions


def made_up_model(space: SearchSpace, workload: Workload, *, scale: float = 1.0) -> CostModel:
    """A model of ``space``: 1 ns per parameter and token in prefill, 10 ns per parameter in decode,
    and something for every block and for what is outside, all times ``scale``.
    """
    blocks = {
        candidate: None
        for choices in space.blocks
        for candidate in (choices.parent, *choices.candidates())
        if isinstance(candidate, Attention | Mlp)
    }
    table = CostTable(
        method_version=METHOD_VERSION,
        source_revision="made up",
        conditions=Conditions(
            engine="VLLM",
            engine_version="0",
            torch_version="0",
            device="none",
            instruction_sets=(),
            processors=1,
            threads=1,
            precision="BF16",
            arguments=(),
        ),
        workload=workload,
        bytes_per_element=2,
        kv_block_tokens=KV_BLOCK_TOKENS,
        kv_blocks=kv_blocks(workload),
        entries=(),
        memory=(),
        blocks=tuple(
            BlockCost(
                block=block,
                hidden_size=hidden,
                prefill=_cost(scale * block.parameters(hidden) * workload.prompt_tokens * 1e-9),
                decode=_cost(scale * (1e-5 + block.parameters(hidden) * 1e-8)),
                buffer_bytes=block.parameters(hidden) // 8,
            )
            for hidden in space.hidden_size
            for block in blocks
        ),
        overheads=tuple(
            Overhead(
                hidden_size=hidden,
                prefill=_cost(scale * (1e-3 + hidden * 1e-6)),
                decode=_cost(scale * (1e-3 + hidden * 1e-6)),
                buffer_bytes=(500 << 20) + hidden * space.parent.vocab_size,
            )
            for hidden in space.hidden_size
        ),
    )
    first = Percentiles(mean=0.21 * scale, p50=0.2 * scale, p90=0.24 * scale, p95=0.25, p99=0.3)
    per = Percentiles(mean=0.021 * scale, p50=0.02 * scale, p90=0.022 * scale, p95=0.023, p99=0.03)
    later = workload.output_tokens - 1
    whole = Percentiles(
        mean=first.mean + later * per.mean,
        p50=first.p50 + later * per.p50,
        p90=first.p90 + later * per.p90,
        p95=first.p95 + later * per.p95,
        p99=first.p99 + later * per.p99,
    )
    costs = MeasuredCosts(
        time_to_first_token=first,
        time_per_output_token=per,
        end_to_end_latency=whole,
        output_tokens_per_second=0.98 * workload.concurrency * workload.output_tokens / whole.mean,
        memory_bytes=2 << 30,
    )
    point = HeldOutPoint(
        architecture=space.parent,
        predicted_prefill_seconds=0.102,
        measured_prefill_seconds=0.1,
        predicted_decode_seconds=0.0103,
        measured_decode_seconds=0.01,
        predicted_memory_bytes=1.01e9,
        measured_memory_bytes=1e9,
    )
    return CostModel(
        table=table, parent=space.parent, parent_costs=costs, held_out=held_out_report([point])
    )


def _cost(seconds: float) -> PhaseCost:
    return PhaseCost(seconds=seconds, error_seconds=seconds / 50)
