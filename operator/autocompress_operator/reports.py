"""What a stage reports, into the parts of status that it fills."""

from __future__ import annotations

from collections.abc import Sequence

from autocompress.api.v1alpha1.running import StageName
from autocompress.api.v1alpha1.status import (
    CompressionJobStatus,
    JobCost,
    LimitStatus,
    QualityStatus,
    Resolved,
    Result,
    StageCost,
    StageOutputs,
    StageState,
    StageStatus,
    TaskStatus,
    decimal_text,
)
from autocompress.contract.termination import (
    CostReport,
    LimitReport,
    ModelReport,
    QualityReport,
    StageReport,
)
from autocompress_operator.messages import short
from autocompress_operator.observation import Completed
from autocompress_operator.snapshot import Node, Pod

_DRIVER = ("nvidia.com/cuda.driver-version.full", "nvidia.com/cuda.driver.major")
_RUNTIME = ("nvidia.com/cuda.runtime-version.full", "nvidia.com/cuda.runtime.major")
_MEASURING = (StageName.PROFILE, StageName.VALIDATE)
_TASKS_SHOWN = 32


def succeed(stage: StageStatus, done: Completed) -> StageStatus:
    """The stage's own part: that it is done, and with which output."""
    report = done.report
    ended = done.pod.terminated
    outputs = stage.outputs
    if report.output_digest:
        outputs = StageOutputs(manifest_uri=report.manifest_uri, digest=report.output_digest)
    return stage.model_copy(
        update={
            "state": StageState.SUCCEEDED,
            "outcome": report.outcome,
            "message": short(report.message) or None,
            "input_digest": report.input_digest or stage.input_digest,
            "outputs": outputs,
            "start_time": stage.start_time or (ended.started if ended else None),
            "completion_time": done.finished,
            "progress": None,
        }
    )


def record(
    status: CompressionJobStatus,
    name: StageName,
    done: Completed,
    *,
    product: str | None,
    nodes: Sequence[Node],
) -> CompressionJobStatus:
    """The job's part: budget, quality, cost, result and what the spec left open."""
    report = done.report
    update: dict[str, object] = {
        "resolved": resolve(
            status.resolved or Resolved(), name, report, done.pod, product=product, nodes=nodes
        )
    }
    if report.budget:
        update["budget_report"] = tuple(_limit(limit) for limit in report.budget)
    if report.quality is not None:
        update["quality"] = _quality(report.quality)
    if report.model is not None:
        update["result"] = _result(report.model)
    if report.cost is not None:
        update["cost"] = _cost(status.cost, name, report.cost)
    return status.model_copy(update=update)


def resolve(
    resolved: Resolved,
    name: StageName,
    report: StageReport,
    pod: Pod,
    *,
    product: str | None,
    nodes: Sequence[Node],
) -> Resolved:
    """What a finished stage ran on and with."""
    update: dict[str, object] = {}
    if report.source_revision:
        update["source_revision"] = report.source_revision
    if pod.image_id:
        update["images"] = {**resolved.images, name: pod.image_id}
    if name in _MEASURING:
        update["accelerator_product"] = product
        update["node"] = pod.node
        node = next((node for node in nodes if node.name == pod.node), None)
        if node is not None:
            update["driver_version"] = _version(node, *_DRIVER)
            update["cuda_version"] = _version(node, *_RUNTIME)
    return resolved.model_copy(update=update)


def _version(node: Node, full: str, major: str) -> str | None:
    """From the newer label, or from the older ones for each part of the number."""
    if full in node.labels:
        return node.labels[full]
    stem = major.removesuffix("major")
    parts = [node.labels.get(f"{stem}{part}", "") for part in ("major", "minor", "rev")]
    return ".".join(part for part in parts if part) or None


def _limit(limit: LimitReport) -> LimitStatus:
    return LimitStatus.model_validate(
        {
            "name": limit.name,
            "unit": limit.unit,
            "limit": decimal_text(limit.limit),
            "predicted": _text(limit.predicted),
            "measured": _text(limit.measured),
            "met": limit.met,
            "utilization_percent": None
            if limit.utilization_percent is None
            else round(limit.utilization_percent),
        }
    )


def _quality(quality: QualityReport) -> QualityStatus:
    return QualityStatus(
        suite=quality.suite,
        baseline=decimal_text(quality.baseline),
        measured=decimal_text(quality.measured),
        retention_percent=decimal_text(quality.retention_percent),
        tasks=tuple(
            TaskStatus(
                name=task.name,
                baseline=decimal_text(task.baseline),
                measured=decimal_text(task.measured),
                standard_error=decimal_text(task.standard_error),
            )
            for task in quality.tasks[:_TASKS_SHOWN]
        ),
    )


def _result(model: ModelReport) -> Result:
    return Result(model_uri=model.uri, digest=model.digest, manifest_uri=model.manifest_uri)


def _cost(cost: JobCost | None, name: StageName, report: CostReport) -> JobCost:
    kept = [stage for stage in (cost.stages if cost else ()) if stage.name is not name]
    added = StageCost(
        name=name,
        device_hours=decimal_text(report.device_hours),
        wall_seconds=round(report.wall_seconds),
        tokens=report.tokens,
        engine_starts=report.engine_starts or 0,
        bytes_moved=report.bytes_moved or 0,
    )
    order = list(StageName)
    stages = tuple(sorted([*kept, added], key=lambda stage: order.index(stage.name)))
    return JobCost(
        device_hours=decimal_text(sum(float(stage.device_hours) for stage in stages)),
        wall_seconds=sum(stage.wall_seconds for stage in stages),
        tokens=sum(stage.tokens for stage in stages),
        engine_starts=sum(stage.engine_starts for stage in stages),
        bytes_moved=sum(stage.bytes_moved for stage in stages),
        stages=stages,
    )


def _text(value: float | None) -> str | None:
    return None if value is None else decimal_text(value)
