"""Events: what changed between two statuses, told once each."""

from __future__ import annotations

from collections.abc import Iterator

from autocompress.api.v1alpha1.status import (
    CompressionJobStatus,
    ConditionReason,
    ConditionStatus,
    ConditionType,
    FailureReason,
    StageState,
)
from autocompress_operator.actions import Notice, Severity
from autocompress_operator.endings import attempts_of
from autocompress_operator.work import STAGES, Work, title

#: From which kind of change to which Event: condition, its status, then reason and severity.
_VERDICTS = (
    (ConditionType.BUDGET_MET, ConditionStatus.TRUE, "BudgetMet", Severity.NORMAL),
    (ConditionType.BUDGET_MET, ConditionStatus.FALSE, "BudgetNotMet", Severity.WARNING),
    (ConditionType.QUALITY_MET, ConditionStatus.FALSE, "QualityNotMet", Severity.WARNING),
)


def notices(before: CompressionJobStatus, after: CompressionJobStatus) -> tuple[Notice, ...]:
    """The transitions that people look for in a job's Events."""
    return tuple(_all(before, after))


def _all(before: CompressionJobStatus, after: CompressionJobStatus) -> Iterator[Notice]:
    for work in (Work.PREFLIGHT, *STAGES):
        yield from _of_attempts(work, before, after)
    yield from _of_suspension(before, after)
    for type_, status, reason, severity in _VERDICTS:
        now, then = after.condition(type_), before.condition(type_)
        if now is not None and now.status is status and (then is None or then.status != status):
            yield Notice(severity=severity, reason=reason, action="Judge", message=now.message)


def _of_attempts(
    work: Work, before: CompressionJobStatus, after: CompressionJobStatus
) -> Iterator[Notice]:
    then, now = attempts_of(before, work), attempts_of(after, work)
    same_attempt = then.attempt == now.attempt
    if now.state is StageState.SUCCEEDED and then.state is not StageState.SUCCEEDED:
        yield Notice(
            severity=Severity.NORMAL,
            reason="StageSucceeded",
            action="Finish",
            message=f"{title(work)} is done.",
        )
    if now.state is StageState.FAILED and then.state is not StageState.FAILED:
        why = now.last_failure
        yield Notice(
            severity=Severity.WARNING,
            reason="StageFailed",
            action="Finish",
            message=f"{title(work)} failed." + (f" {why.reason}. {why.message}" if why else ""),
        )
    if now.state is StageState.RUNNING and now.start_time != then.start_time:
        yield Notice(
            severity=Severity.NORMAL,
            reason="StageStarted",
            action="Start",
            message=f"{title(work)} is running, attempt {now.attempt}.",
        )
    going = now.state in (StageState.PENDING, StageState.RUNNING)
    tried_again = same_attempt and now.last_failure not in (None, then.last_failure)
    if going and (now.attempt > then.attempt or tried_again):
        words = f" after {now.last_failure.reason}" if now.last_failure else ""
        yield Notice(
            severity=Severity.NORMAL,
            reason="StageRetried",
            action="Retry",
            message=f"{title(work)} is tried again{words}.",
        )


def _of_suspension(before: CompressionJobStatus, after: CompressionJobStatus) -> Iterator[Notice]:
    then, now = _suspended(before), _suspended(after)
    if now and not then:
        yield Notice(
            severity=Severity.NORMAL,
            reason="Suspended",
            action="Suspend",
            message="Nothing runs; spec.suspend: false goes on where it stopped.",
        )
    if then and not now:
        yield Notice(
            severity=Severity.NORMAL,
            reason="Resumed",
            action="Resume",
            message="The job goes on.",
        )


def _suspended(status: CompressionJobStatus) -> bool:
    found = status.condition(ConditionType.SUSPENDED)
    reason: ConditionReason | FailureReason | None = found.reason if found else None
    return (
        found is not None
        and found.status is ConditionStatus.TRUE
        and reason is ConditionReason.SUSPENDED_BY_SPEC
    )
