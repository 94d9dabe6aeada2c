"""What a runner is told of a finished stage: read from what the store has recorded.

A stage that was found done is reported word for word like one that was just run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from autocompress.contract import documents
from autocompress.contract.stage import Manifest, Outcome, Stage, Summary
from autocompress.contract.termination import (
    CostReport,
    LimitReport,
    ModelReport,
    QualityReport,
    StageReport,
    TaskReport,
)
from autocompress.domain.budget import Metric
from autocompress.domain.costs import MeasuredCosts, PredictedCosts, resolve_bounds
from autocompress.domain.job import Job
from autocompress.domain.records import Quality, Scorecard
from autocompress.stages.execute import stage_prefix
from autocompress.store import artifacts
from autocompress.store.protocol import Store

Document = TypeVar("Document")

#: The figure in which a stage says how much text it has trained models on.
_TOKENS = "tokens"


def stage_report(
    stage: Stage,
    job: Job,
    store: Store,
    finished: Mapping[Stage, Manifest],
    *,
    source_revision: str,
) -> StageReport:
    """The report of ``stage``, one of ``finished``.

    Raises:
        CorruptArtifactError: a document that it rests on is damaged.
    """
    manifest = finished[stage]
    summary = manifest.summary or Summary(stage=stage)
    card = _read(store, manifest, "scorecard.json", Scorecard)
    return StageReport(
        stage=stage.value,
        outcome=summary.outcome,
        message=summary.message,
        source_revision=source_revision,
        input_digest=manifest.input_digest,
        output_digest=manifest.output_digest,
        manifest_uri=artifacts.manifest_uri(store, stage_prefix(stage, manifest.input_digest)),
        figures=summary.figures,
        budget=_judged(card) if card else _expected(stage, job, store, finished, summary.outcome),
        quality=_quality(card.quality) if card else None,
        model=_model(store, manifest),
        cost=_cost(job, manifest, summary),
    )


def _judged(card: Scorecard) -> tuple[LimitReport, ...]:
    return tuple(
        LimitReport(
            name=limit.name,
            unit=_UNITS[limit.unit],
            limit=_in_unit(limit.bound, limit.unit),
            predicted=_in_unit(limit.predicted, limit.unit),
            measured=_in_unit(limit.measured, limit.unit),
            met=limit.met,
            utilization_percent=_percent(limit.utilization),
        )
        for limit in card.limits
    )


def _expected(
    stage: Stage, job: Job, store: Store, finished: Mapping[Stage, Manifest], outcome: Outcome
) -> tuple[LimitReport, ...]:
    """Before validation: the limits, resolved against the profiled parent, and what is predicted
    of the chosen architecture.
    """
    if stage not in (Stage.PROFILE, Stage.SEARCH):
        return ()
    parent = _read(store, finished[Stage.PROFILE], "parent_costs.json", MeasuredCosts)
    if parent is None:
        return ()
    chosen = _read(store, finished[stage], "predicted_costs.json", PredictedCosts)
    fits = outcome is Outcome.BUDGET_ALREADY_MET
    reports = []
    for limit, bound in zip(job.budget.limits, resolve_bounds(job.budget, parent), strict=True):
        unit, value = limit.metric.unit, parent.value(limit)
        reports.append(
            LimitReport(
                name=limit.name,
                unit=_UNITS[unit],
                limit=_in_unit(bound, unit),
                predicted=None if chosen is None else _in_unit(chosen.value(limit), unit),
                measured=_in_unit(value, unit) if fits else None,
                met=True if fits else None,
                utilization_percent=_percent(limit.utilization(value, bound)) if fits else None,
            )
        )
    return tuple(reports)


def _quality(quality: Quality) -> QualityReport:
    return QualityReport(
        suite=quality.suite,
        baseline=round(quality.parent_mean, 6),
        measured=round(quality.compressed_mean, 6),
        retention_percent=round(quality.retention_percent, 4),
        tasks=tuple(
            TaskReport(
                name=task.name,
                baseline=round(task.parent, 6),
                measured=round(task.compressed, 6),
                standard_error=round(task.compressed_error, 6),
            )
            for task in quality.tasks
        ),
    )


def _model(store: Store, manifest: Manifest) -> ModelReport | None:
    reference = _read(store, manifest, "model.json", artifacts.Reference)
    if reference is None:
        return None
    return ModelReport(
        uri=artifacts.uri(store, reference),
        manifest_uri=artifacts.manifest_uri(store, reference.prefix),
        digest=reference.output_digest,
    )


def _cost(job: Job, manifest: Manifest, summary: Summary) -> CostReport:
    effort = manifest.effort
    accelerators = job.target.accelerator.count * (effort.nodes if effort else 1)
    tokens = summary.figures.get(_TOKENS, 0)
    return CostReport(
        wall_seconds=manifest.wall_seconds,
        device_hours=round(manifest.wall_seconds * accelerators / 3600, 6),
        tokens=tokens if isinstance(tokens, int) else 0,
        engine_starts=effort.engine_starts if effort else None,
        bytes_moved=effort.bytes_moved if effort else None,
    )


def _read(store: Store, manifest: Manifest, name: str, kind: type[Document]) -> Document | None:
    """A document of a stage, or ``None`` where the stage leaves none of that name."""
    if name not in manifest.files:
        return None
    prefix = stage_prefix(Stage(manifest.kind), manifest.input_digest)
    data = artifacts.read(store, prefix, manifest, name)
    return documents.load(kind, data, name=f"{store.uri}: {prefix}/{name}")


_UNITS = {metric.unit: "ms" if metric.is_latency else metric.unit for metric in Metric}


def _in_unit(value: float, unit: str) -> float:
    match unit:
        case "s":
            return round(value * 1000, 6)
        case "bytes":
            return float(int(value))
        case _:
            return round(value, 6)


def _percent(share: float) -> float:
    return round(100 * share, 4)
