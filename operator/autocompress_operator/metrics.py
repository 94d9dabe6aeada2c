"""The operator's Prometheus metrics: of jobs, made of the cache at each scrape, and of itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from autocompress.api.v1alpha1.status import (
    CompressionJobStatus,
    ConditionStatus,
    LimitStatus,
    StageState,
)
from autocompress_operator.cache import Cache
from autocompress_operator.endings import attempts_of, stage_of
from autocompress_operator.snapshot import JobObject
from autocompress_operator.work import STAGE_NAMES, Work

_JOB = ["namespace", "name"]
#: Base unit and what one of the status's units is of it.
_UNITS = {
    "ms": ("seconds", 0.001),
    "bytes": ("bytes", 1.0),
    "tokens/s": ("tokens_per_second", 1.0),
}
#: From seconds to days: a stage may be a look at a finished result, or a long training.
_STAGE_BUCKETS = (10, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 72 * 3600)
_VISIT_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)


class OperatorMetrics:
    """What the operator counts of its own work."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.visits = Counter(
            "compression_operator_reconcile",
            "Visits to jobs, by how they ended.",
            ["result"],
            registry=registry,
        )
        self.visit_seconds = Histogram(
            "compression_operator_reconcile_duration_seconds",
            "How long visits took.",
            buckets=_VISIT_BUCKETS,
            registry=registry,
        )
        self.requests = Counter(
            "compression_operator_api_requests",
            "Requests to the API server beside watches and their lists.",
            ["method", "code"],
            registry=registry,
        )
        self.stages = Counter(
            "compression_stages_completed",
            "Stages that ended, by outcome (the reason is that of a failure).",
            ["stage", "outcome", "reason"],
            registry=registry,
        )
        self.stage_seconds = Histogram(
            "compression_stage_duration_seconds",
            "From a stage's start to its end.",
            ["stage"],
            buckets=_STAGE_BUCKETS,
            registry=registry,
        )
        for result in ("success", "error"):
            self.visits.labels(result=result)

    def answered(self, method: str, code: int) -> None:
        """A request was answered."""
        self.requests.labels(method=method, code=str(code)).inc()

    def wrote(self, before: CompressionJobStatus, after: CompressionJobStatus) -> None:
        """A status was written: count the stages that ended with it."""
        for work, name in STAGE_NAMES.items():
            then, now = stage_of(before, work), stage_of(after, work)
            over = (StageState.SUCCEEDED, StageState.FAILED)
            if now.state not in over or (then.state, then.attempt) == (now.state, now.attempt):
                continue
            failure = now.last_failure if now.state is StageState.FAILED else None
            outcome = now.outcome.value if now.outcome else now.state.value
            self.stages.labels(
                stage=name.value,
                outcome=outcome if failure is None else StageState.FAILED.value,
                reason=failure.reason.value if failure else "",
            ).inc()
            if now.start_time is not None and now.completion_time is not None:
                seconds = (now.completion_time - now.start_time).total_seconds()
                self.stage_seconds.labels(stage=name.value).observe(seconds)


class OperatorCollector(Collector):
    """Gauges of the operator at the time of the scrape."""

    def __init__(
        self, *, depth: Callable[[], int], last_seen: Callable[[], dict[str, float]]
    ) -> None:
        self._depth = depth
        self._last_seen = last_seen

    def collect(self) -> Iterable[Metric]:
        """See ``Collector``."""
        depth = GaugeMetricFamily("compression_operator_queue_depth", "Jobs that wait for a visit.")
        depth.add_metric([], self._depth())
        yield depth
        seen = GaugeMetricFamily(
            "compression_operator_last_watch_event_timestamp_seconds",
            "When a watch last received anything, a bookmark at least.",
            labels=["resource"],
        )
        for resource, time in self._last_seen().items():
            seen.add_metric([resource], time)
        yield seen


class JobCollector(Collector):
    """Series of every job that is there at the time of the scrape, up to a number of jobs."""

    def __init__(self, cache: Cache, *, max_jobs: int) -> None:
        self._cache = cache
        self._max_jobs = max_jobs

    def collect(self) -> Iterable[Metric]:
        """See ``Collector``."""
        every = sorted((job for _, job in self._cache.jobs), key=lambda job: str(job.key))
        shown = every[: self._max_jobs]
        hidden = GaugeMetricFamily(
            "compression_operator_jobs_without_series",
            "Jobs beyond the number that get series of their own.",
        )
        hidden.add_metric([], len(every) - len(shown))
        yield hidden
        yield self._info(shown)
        yield self._conditions(shown)
        yield self._stages(shown)
        yield from self._budget(shown)
        yield self._utilization(shown)
        yield self._retention(shown)

    @staticmethod
    def _info(jobs: Iterable[JobObject]) -> Metric:
        family = InfoMetricFamily(
            "compressionjob", "Target of a job.", labels=[*_JOB, "accelerator", "engine"]
        )
        for job in jobs:
            target = job.job.spec.target if job.job else None
            device = target.accelerator if target else None
            accelerator = (device.product or device.kind.value) if device else ""
            engine = target.engine.name.value if target else ""
            family.add_metric([*_labels(job), accelerator, engine], {})
        return family

    @staticmethod
    def _conditions(jobs: Iterable[JobObject]) -> Metric:
        family = GaugeMetricFamily(
            "compressionjob_status_condition",
            "Whether a condition has a status: 1 or 0.",
            labels=[*_JOB, "type", "status"],
        )
        for job in jobs:
            for condition in job.status.conditions:
                for status in ConditionStatus:
                    labels = [*_labels(job), condition.type.value, status.value]
                    family.add_metric(labels, float(condition.status is status))
        return family

    @staticmethod
    def _stages(jobs: Iterable[JobObject]) -> Metric:
        family = GaugeMetricFamily(
            "compressionjob_stage_state",
            "Whether a stage is in a state: 1 or 0.",
            labels=[*_JOB, "stage", "state"],
        )
        for job in jobs:
            for work, name in STAGE_NAMES.items():
                now = attempts_of(job.status, Work(work)).state
                for state in StageState:
                    family.add_metric([*_labels(job), name.value, state.value], float(now is state))
        return family

    @staticmethod
    def _budget(jobs: Iterable[JobObject]) -> Iterator[Metric]:
        families = {
            (what, unit): GaugeMetricFamily(
                f"compressionjob_budget_{what}_{unit}",
                f"Limits of the budget in {unit.replace('_', ' ')}: {what}.",
                labels=[*_JOB, "constraint"],
            )
            for what in ("limit", "predicted", "measured")
            for unit, _ in _UNITS.values()
        }
        for job in jobs:
            for limit in job.status.budget_report:
                unit, scale = _UNITS[limit.unit]
                labels = [*_labels(job), limit.name]
                for what, text in _figures(limit).items():
                    if text is not None:
                        families[what, unit].add_metric(labels, float(text) * scale)
        yield from families.values()

    @staticmethod
    def _utilization(jobs: Iterable[JobObject]) -> Metric:
        family = GaugeMetricFamily(
            "compressionjob_budget_utilization_ratio",
            "Share of a limit that is used.",
            labels=[*_JOB, "constraint"],
        )
        for job in jobs:
            for limit in job.status.budget_report:
                if limit.utilization_percent is not None:
                    family.add_metric([*_labels(job), limit.name], limit.utilization_percent / 100)
        return family

    @staticmethod
    def _retention(jobs: Iterable[JobObject]) -> Metric:
        family = GaugeMetricFamily(
            "compressionjob_quality_retention_ratio",
            "Share of the parent's score that the model keeps.",
            labels=[*_JOB, "suite"],
        )
        for job in jobs:
            quality = job.status.quality
            if quality is not None:
                ratio = float(quality.retention_percent) / 100
                family.add_metric([*_labels(job), quality.suite], ratio)
        return family


def _labels(job: JobObject) -> list[str]:
    return [job.key.namespace, job.key.name]


def _figures(limit: LimitStatus) -> dict[str, str | None]:
    return {"limit": limit.limit, "predicted": limit.predicted, "measured": limit.measured}
