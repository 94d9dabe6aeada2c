"""How one attempt at a piece of work stands, from its child, pods and Events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from autocompress.api.v1alpha1.status import ConditionReason, Failure, FailureReason
from autocompress.contract import documents
from autocompress.contract.errors import DataError
from autocompress.contract.termination import StageReport
from autocompress_operator.failures import (
    final,
    job_failure,
    killed,
    last_failure,
    make_failure,
    pod_failure,
    start_trouble,
)
from autocompress_operator.messages import create_failure, scheduler_words, with_remedy
from autocompress_operator.snapshot import Child, ChildKind, JobEvent, Phase, Pod
from autocompress_operator.work import Work, title

#: How often a stage may be killed for memory before more tries are pointless.
_MEMORY_TRIES = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Pending:
    """No container runs yet. ``until`` is when waiting becomes a failure."""

    reason: ConditionReason | FailureReason
    message: str
    until: datetime | None = None
    pod: Pod | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Running:
    """At least one container runs; ``failure`` is that of the try before."""

    pods: tuple[Pod, ...]
    failure: Failure | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Retrying:
    """The last try failed and the next has not begun."""

    failure: Failure | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Halted:
    """Suspended, and nothing runs any more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Completed:
    """Done, with the stage's own report."""

    report: StageReport
    pod: Pod
    finished: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Lost:
    """Done, but the pod that could say with which result is not there; since ``finished``."""

    finished: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Failed:
    """The attempt is over."""

    failure: Failure
    finished: datetime | None


Observation = Pending | Running | Retrying | Halted | Completed | Lost | Failed


def observe(
    child: Child,
    pods: Sequence[Pod],
    events: Sequence[JobEvent],
    *,
    now: datetime,
    start_grace: timedelta,
) -> Observation:
    """How an attempt stands. ``pods`` and ``events`` are its own, oldest first."""
    if child.finish is not None:
        return _ended(child, pods)
    failure = _hopeless(child, pods, events)
    if failure is not None:
        return Failed(failure=failure, finished=None)
    return _going(child, pods, events, now=now, start_grace=start_grace)


def _going(
    child: Child,
    pods: Sequence[Pod],
    events: Sequence[JobEvent],
    *,
    now: datetime,
    start_grace: timedelta,
) -> Observation:
    active = [p for p in pods if p.phase in (Phase.PENDING, Phase.RUNNING) and not p.deleting]
    if active:
        return _active(child.work, active, pods, now=now, start_grace=start_grace)
    if child.suspended and child.active == 0:
        return Halted()
    refused = _refused(child, pods, events, now=now, start_grace=start_grace)
    if refused is not None:
        return refused
    if any(final(pod) for pod in pods):
        return Pending(
            reason=ConditionReason.STAGE_PENDING,
            message=f"{title(child.work)} failed for good; its Job is about to say so.",
        )
    if any(pod.phase is Phase.FAILED for pod in pods):
        return Retrying(failure=last_failure(child.work, pods))
    return _waiting(child.work)


def _ended(child: Child, pods: Sequence[Pod]) -> Observation:
    finish = child.finish
    if finish is None:
        raise ValueError(f"{child.name} has not ended")
    if not finish.succeeded:
        return Failed(failure=job_failure(child, pods), finished=finish.time)
    done = sorted(
        (pod for pod in pods if pod.terminated is not None and pod.terminated.exit_code == 0),
        key=lambda pod: (pod.index, -pod.created.timestamp()),
    )
    for pod in done:
        report = read_report(pod, child.work)
        if report is not None:
            return Completed(report=report, pod=pod, finished=finish.time)
    if not done:
        return Lost(finished=finish.time)
    what = (
        f"{title(child.work)} ended with exit code 0 and left no result that can be read in its "
        "termination message"
    )
    failure = make_failure(FailureReason.INTERNAL_ERROR, what, pod=done[0], exit_code=0)
    return Failed(failure=failure, finished=finish.time)


def read_report(pod: Pod, work: Work) -> StageReport | None:
    """The result in a pod's termination message; None where there is none of this work."""
    if pod.terminated is None:
        return None
    try:
        report = documents.load(StageReport, pod.terminated.message.encode(), name=pod.name)
    except DataError:
        return None
    return report if report.stage == work.value else None


def _hopeless(child: Child, pods: Sequence[Pod], events: Sequence[JobEvent]) -> Failure | None:
    """A failure that the child itself would go on from, in vain."""
    kills = Counter(pod.index for pod in pods if killed(pod))
    if kills and max(kills.values()) >= _MEMORY_TRIES:
        return pod_failure(child.work, next(pod for pod in reversed(pods) if killed(pod)))
    if child.kind is not ChildKind.JOB:
        # A JobSet knows no exit codes and would restart.
        for pod in filter(final, pods):
            return pod_failure(child.work, pod)
    return _pod_security(child, pods, events)


def _pod_security(child: Child, pods: Sequence[Pod], events: Sequence[JobEvent]) -> Failure | None:
    event = _current_event(pods, events)
    if event is None or child.suspended:
        return None
    reason, what = create_failure(event.message)
    if reason is not FailureReason.POD_SECURITY_VIOLATION:
        return None
    return make_failure(reason, what)


def _active(
    work: Work,
    active: Sequence[Pod],
    pods: Sequence[Pod],
    *,
    now: datetime,
    start_grace: timedelta,
) -> Observation:
    waits = [_wait(work, pod, start_grace) for pod in active if pod.running_since is None]
    troubles = [wait for wait in waits if wait.until is not None]
    for trouble in troubles:
        if trouble.until is not None and now >= trouble.until:
            reason = FailureReason(trouble.reason)
            failure = make_failure(reason, trouble.message, pod=trouble.pod)
            return Failed(failure=failure, finished=None)
    if troubles:
        return troubles[0]
    running = tuple(pod for pod in active if pod.running_since is not None)
    if running:
        return Running(pods=running, failure=last_failure(work, pods))
    return waits[0]


def _wait(work: Work, pod: Pod, start_grace: timedelta) -> Pending:
    if pod.unschedulable is not None:
        reason = FailureReason.UNSCHEDULABLE
        what = f"The pod of {title(work)} waits: {scheduler_words(pod.unschedulable)}"
        return Pending(reason=reason, message=with_remedy(reason, what), pod=pod)
    if pod.waiting is not None:
        trouble = start_trouble(pod.waiting.reason, pod.waiting.message)
        if trouble is not None:
            failed, what = trouble
            since = pod.scheduled or pod.created
            return Pending(reason=failed, message=what, until=since + start_grace, pod=pod)
    return _waiting(work, pod=pod)


def _waiting(work: Work, *, pod: Pod | None = None) -> Pending:
    return Pending(
        reason=ConditionReason.STAGE_PENDING,
        message=f"{title(work)} is about to start.",
        pod=pod,
    )


def _refused(
    child: Child,
    pods: Sequence[Pod],
    events: Sequence[JobEvent],
    *,
    now: datetime,
    start_grace: timedelta,
) -> Observation | None:
    """Pods that the API server does not let the Job controller create."""
    event = _current_event(pods, events)
    if event is None:
        return None
    reason, what = create_failure(event.message)
    if reason is FailureReason.QUOTA_EXCEEDED:
        return Pending(reason=reason, message=with_remedy(reason, what))
    until = child.created + start_grace
    if now >= until:
        return Failed(failure=make_failure(reason, what), finished=None)
    return Pending(reason=reason, message=with_remedy(reason, what), until=until)


def _current_event(pods: Sequence[Pod], events: Sequence[JobEvent]) -> JobEvent | None:
    """The last refusal, where no pod was created since."""
    if not events:
        return None
    last = events[-1]
    return None if any(pod.created > last.last_seen for pod in pods) else last
