"""The scorecard and its verdict, put together from what was measured. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from autocompress.contract.stage import Outcome, Stage, Summary
from autocompress.domain.architecture import Architecture
from autocompress.domain.costs import LimitVerdict, MeasuredCosts, PredictedCosts, judge
from autocompress.domain.job import Job
from autocompress.domain.records import Quality, Scorecard
from autocompress.evaluation.load_test import LoadResult

#: A parent that measures this share away from its profile says that the machine has changed.
_DRIFT = 0.2


@dataclass(frozen=True, kw_only=True, slots=True)
class Served:
    """One model in the engine: its load test, and the engine's peak memory."""

    load: LoadResult
    peak_memory_bytes: int

    @property
    def costs(self) -> MeasuredCosts:
        """The figures that limits speak of."""
        return MeasuredCosts(
            time_to_first_token=self.load.time_to_first_token,
            time_per_output_token=self.load.time_per_output_token,
            end_to_end_latency=self.load.end_to_end_latency,
            output_tokens_per_second=self.load.output_tokens_per_second,
            memory_bytes=self.peak_memory_bytes,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """What was measured: both models, as files."""

    source_revision: str
    parent: Architecture
    compressed: Architecture
    export_format: str
    model_digest: str


def scorecard(
    job: Job,
    subject: Subject,
    *,
    device: str,
    engine_version: str,
    parent: Served,
    compressed: Served,
    predicted: PredictedCosts,
    profiled_parent: MeasuredCosts,
    quality: Quality,
    notes: tuple[str, ...] = (),
) -> Scorecard:
    """Judge the compressed model; percent limits are taken of the parent served beside it."""
    limits = judge(job.budget, predicted, compressed.costs, parent.costs)
    return Scorecard(
        job=job.name,
        source_uri=job.source.uri,
        source_revision=subject.source_revision,
        parent=subject.parent,
        compressed=subject.compressed,
        parent_parameters=subject.parent.parameters(),
        compressed_parameters=subject.compressed.parameters(),
        precision=job.target.precision.value,
        device=device,
        engine=job.target.engine.name.value,
        engine_version=engine_version,
        prompt_tokens=job.workload.prompt_tokens,
        output_tokens=job.workload.output_tokens,
        concurrency=job.workload.concurrency,
        requests=compressed.load.requests,
        request_set_digest=compressed.load.request_set_digest,
        export_format=subject.export_format,
        parent_costs=parent.costs,
        compressed_costs=compressed.costs,
        predicted_costs=predicted,
        limits=limits,
        budget_met=all(limit.met for limit in limits),
        min_utilization_percent=job.budget.min_utilization_percent,
        quality=quality,
        model_digest=subject.model_digest,
        notes=(
            *_notes(job, limits, compressed.load.requests, parent.costs, profiled_parent),
            *notes,
        ),
    )


def summary(card: Scorecard) -> Summary:
    """The stage's summary: the verdict, by how much, and what to do about it."""
    missed = [limit for limit in card.limits if not limit.met]
    quality = card.quality
    if missed:
        outcome = Outcome.BUDGET_NOT_MET
        message = (
            "; ".join(_missed(limit) for limit in missed)
            + ". Nothing was published. The search keeps to its prediction, which was too hopeful "
            "by that much: lower the limit by as much, or raise it to what is needed"
        )
    elif not quality.met:
        outcome = Outcome.QUALITY_NOT_MET
        message = (
            f"quality retained {quality.retention_percent:.1f} % (standard error "
            f"{quality.retention_error_percent:.1f}), at least {quality.min_retention_percent} % "
            "was asked. Nothing was published. Raise recovery.tokens, loosen the budget, or lower "
            "quality.minRetentionPercent"
        )
    else:
        outcome = Outcome.DONE
        binding = max(card.limits, key=lambda limit: limit.utilization)
        message = (
            f"budget met, {binding.name} at {binding.utilization:.0%} of its limit; quality "
            f"retained {quality.retention_percent:.1f} %"
        )
    figures: dict[str, float | int | str] = {
        "parent_parameters": card.parent_parameters,
        "compressed_parameters": card.compressed_parameters,
        "retention_percent": round(quality.retention_percent, 2),
        "retention_error_percent": round(quality.retention_error_percent, 2),
        "parent_mean": round(quality.parent_mean, 4),
        "pruned_mean": round(quality.pruned_mean, 4),
        "compressed_mean": round(quality.compressed_mean, 4),
        "requests": card.requests,
        "model_digest": card.model_digest,
    }
    for limit in card.limits:
        figures[f"{limit.name}.bound"] = limit.bound
        figures[f"{limit.name}.predicted"] = limit.predicted
        figures[f"{limit.name}.measured"] = limit.measured
        figures[f"{limit.name}.utilization"] = round(limit.utilization, 4)
    return Summary(stage=Stage.VALIDATE, outcome=outcome, message=message, figures=figures)


def _missed(limit: LimitVerdict) -> str:
    return (
        f"{limit.name} measured {_quantity(limit.measured, limit.unit)}, limit "
        f"{_quantity(limit.bound, limit.unit)} ({limit.utilization - 1:.1%} over)"
    )


def _quantity(value: float, unit: str) -> str:
    if unit == "bytes":
        return f"{value / 2**20:.0f} MiB"
    return f"{value * 1000:.2f} ms" if unit == "s" else f"{value:.1f} {unit}"


def _notes(
    job: Job,
    limits: tuple[LimitVerdict, ...],
    requests: int,
    parent: MeasuredCosts,
    profiled: MeasuredCosts,
) -> list[str]:
    notes = []
    binding = max(limits, key=lambda limit: limit.utilization)
    if binding.utilization < job.budget.min_utilization_percent / 100:
        notes.append(
            f"The binding limit, {binding.name}, is used to {binding.utilization:.0%}; at least "
            f"{job.budget.min_utilization_percent} % was wanted. A larger model would fit."
        )
    for limit in job.budget.limits:
        # Below this many requests a percentile is the slowest request and little else.
        needed = 100 // (100 - limit.percentile) if limit.percentile else 0
        if requests < needed:
            notes.append(f"{limit.name} rests on {requests} requests; {needed} would be right.")
    now, then = parent.time_per_output_token.p50, profiled.time_per_output_token.p50
    if then and abs(now / then - 1) > _DRIFT:
        notes.append(
            f"The parent's median time per output token is {now * 1000:.2f} ms here and was "
            f"{then * 1000:.2f} ms when profiled: the machine was not equally free."
        )
    return notes
