"""The decision: from a snapshot, the time and the settings to actions and status.

Nothing is remembered between two decisions but what status says. An end is recorded before what
proves it is deleted, and final only when nothing runs any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from autocompress.api.names import FINALIZER
from autocompress.api.v1alpha1 import CompressionJob
from autocompress.api.v1alpha1.artifacts import DeletionPolicy
from autocompress.api.v1alpha1.status import (
    CompressionJobStatus,
    ConditionReason,
    ConditionStatus,
    ConditionType,
    FailureReason,
    StageState,
)
from autocompress_operator import jobs
from autocompress_operator.actions import (
    Action,
    AddFinalizer,
    ChildRef,
    Create,
    Delete,
    DeleteJob,
    DropFinalizer,
    Notice,
    Resume,
    Suspend,
)
from autocompress_operator.attempts import (
    Scene,
    View,
    advance,
    begin,
    created,
    expired,
    retried,
    task,
)
from autocompress_operator.conditions import (
    Fact,
    Paused,
    Phase,
    Working,
    artifacts_fact,
    conditions,
    phase_facts,
    verdict_facts,
)
from autocompress_operator.deletion import Removal, plan_removal
from autocompress_operator.endings import (
    Ending,
    attempts_of,
    ending,
    is_unreachable,
    refused_spec,
)
from autocompress_operator.notices import notices
from autocompress_operator.observation import Halted, Lost, Pending, Retrying, Running
from autocompress_operator.settings import Settings
from autocompress_operator.snapshot import Child, JobObject, RefusalKind, Snapshot
from autocompress_operator.surroundings import (
    admitted_fact,
    queue_words,
    suspended_fact,
    target_fact,
)
from autocompress_operator.work import STEPS, Work, title

#: How soon to try again what the API server refused, and to look again at what is going away.
_REFUSED_AGAIN = timedelta(seconds=30)
_ENDING_AGAIN = timedelta(seconds=5)


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What to do, in this order: the actions, then the status, then the notices.

    ``status`` is None where it stays as it is.
    """

    actions: tuple[Action, ...] = ()
    status: CompressionJobStatus | None = None
    notices: tuple[Notice, ...] = ()
    look_again_after: timedelta | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Course:
    """What to do about the attempts, and how the job then stands."""

    phase: Phase
    status: CompressionJobStatus
    actions: tuple[Action, ...] = ()
    due: datetime | None = None


def plan(snapshot: Snapshot, now: datetime, settings: Settings) -> Plan:
    """Decide about one CompressionJob."""
    owner = snapshot.job
    if owner.deletion_time is not None:
        return _removed(plan_removal(snapshot, now, settings))
    job = owner.job
    if job is None:
        return _unreadable(snapshot, now)
    finalizer = _finalizer(owner, job)
    if finalizer is not None:
        # On its own: it makes a new version of the job, which the rest is decided from.
        return Plan(actions=(finalizer,), look_again_after=timedelta(0))
    status = begin(owner.status, job, settings)
    status = _clock(status, owner, job, now)
    status = retried(status, owner.retry_token, now)
    scene = Scene(snapshot=snapshot, job=job, now=now, settings=settings)
    view = advance(status, scene)
    course = _course(view, scene)
    facts = _facts(view, course.phase, scene)
    course = replace(course, phase=_explained(course.phase, facts))
    return _conclude(snapshot, course, facts, now)


def _removed(removal: Removal) -> Plan:
    return Plan(
        actions=removal.actions,
        notices=removal.notices,
        look_again_after=removal.look_again_after,
    )


def _unreadable(snapshot: Snapshot, now: datetime) -> Plan:
    """The spec cannot be run: stop what runs, then say so."""
    owner = snapshot.job
    live = [child for child in snapshot.children if child.live]
    course = _Course(
        phase=_stopping() if live else ending(owner.status) or refused_spec(owner.fault),
        status=owner.status,
        actions=tuple(_delete(child) for child in live if not child.deleting),
        due=now + _ENDING_AGAIN if live else None,
    )
    return _conclude(snapshot, course, {}, now)


def _clock(
    status: CompressionJobStatus, owner: JobObject, job: CompressionJob, now: datetime
) -> CompressionJobStatus:
    """When work began: what the deadline counts from; suspension starts it again, as in a Job."""
    if job.spec.suspend:
        return status
    suspended = owner.status.condition(ConditionType.SUSPENDED)
    resumed = (
        suspended is not None
        and suspended.status is ConditionStatus.TRUE
        and suspended.reason is ConditionReason.SUSPENDED_BY_SPEC
        and status.completion_time is None
    )
    if status.start_time is None or resumed:
        return status.model_copy(update={"start_time": now})
    return status


def _finalizer(owner: JobObject, job: CompressionJob) -> Action | None:
    artifacts = job.spec.artifacts
    wanted = artifacts is not None and artifacts.deletion_policy is DeletionPolicy.DELETE
    there = FINALIZER in owner.finalizers
    if wanted and not there:
        return AddFinalizer()
    return DropFinalizer() if there and not wanted else None


def _course(view: View, scene: Scene) -> _Course:
    due = None
    if not scene.job.spec.suspend:
        status, due = expired(view, scene.job, scene.now)
        if status is not view.status:
            view = View(status=status, work=None)
    end = ending(view.status)
    if end is not None:
        return _ended(view.status, end, scene)
    if view.work is None:
        raise ValueError("a job without an end has no next step")
    strays = [c for c in scene.snapshot.children if c.live and c is not view.child]
    if strays:
        return _Course(
            phase=_stopping(),
            status=view.status,
            actions=tuple(_delete(child) for child in strays if not child.deleting),
            due=_earliest(due, scene.now + _ENDING_AGAIN),
        )
    if scene.job.spec.suspend:
        return _suspended(view, scene)
    return _going(view, view.work, scene, due)


def _ended(status: CompressionJobStatus, end: Ending, scene: Scene) -> _Course:
    live = [child for child in scene.snapshot.children if child.live]
    if not live:
        return _Course(phase=end, status=status)
    # What is deleted takes the proof with it: only what is written down already.
    recorded = ending(scene.snapshot.job.status) == end
    return _Course(
        phase=Working(reason=ConditionReason.STOPPING, message=end.message),
        status=status,
        actions=tuple(_delete(c) for c in live if recorded and not c.deleting),
        due=scene.now + _ENDING_AGAIN,
    )


def _suspended(view: View, scene: Scene) -> _Course:
    child = view.child
    if child is None or not child.live or isinstance(view.observation, Halted):
        words = "spec.suspend is true; nothing runs."
        return _Course(phase=Paused(message=words), status=view.status)
    actions: tuple[Action, ...] = ()
    if child.queued:
        # The queue owns its suspend field; the checkpoint outlives the child.
        actions = () if child.deleting else (_delete(child),)
    elif not child.suspended:
        actions = (Suspend(child=_ref(child)),)
    return _Course(
        phase=_stopping(), status=view.status, actions=actions, due=scene.now + _ENDING_AGAIN
    )


def _going(view: View, work: Work, scene: Scene, due: datetime | None) -> _Course:
    due = _earliest(due, view.due)
    phase = _working(view, work, scene.snapshot)
    child = view.child
    if child is not None:
        resume = child.suspended and not child.queued and not child.deleting
        return _Course(
            phase=phase,
            status=view.status,
            actions=(Resume(child=_ref(child)),) if resume else (),
            due=due,
        )
    if view.observation is not None or is_unreachable(attempts_of(view.status, work)):
        refusal = scene.snapshot.refusals.get(work)
        if refusal is not None:
            ends = refusal.kind is RefusalKind.ENDING
            again = scene.now + (_ENDING_AGAIN if ends else _REFUSED_AGAIN)
            due = _earliest(due, again)
        return _Course(phase=phase, status=view.status, due=due)
    next_task = task(scene.snapshot.job, scene.job, view.status, work, scene.settings)
    made = jobs.manifests(next_task)
    name = jobs.child_name(next_task)
    create = Create(
        work=work,
        attempt=next_task.attempt,
        name=name,
        input_digest=next_task.input_digest,
        manifests=made,
    )
    status = created(view.status, work, made.kind, name, next_task.input_digest)
    return _Course(phase=phase, status=status, actions=(create,), due=due)


def _working(view: View, work: Work, snapshot: Snapshot) -> Working:
    probing = work is Work.PREFLIGHT
    pending = ConditionReason.PREFLIGHT_RUNNING if probing else ConditionReason.STAGE_PENDING
    running = ConditionReason.PREFLIGHT_RUNNING if probing else ConditionReason.STAGE_RUNNING
    reason: ConditionReason | FailureReason = pending
    message = f"{title(work)} is about to start."
    failure = attempts_of(view.status, work).last_failure
    match view.observation:
        case Pending():
            usual = view.observation.reason is ConditionReason.STAGE_PENDING
            reason = pending if usual else view.observation.reason
            message = view.observation.message
        case Running():
            reason, message = running, f"{title(work)} is running."
        case Retrying():
            words = f" after {failure.reason}: {failure.message}" if failure else "."
            reason = ConditionReason.STAGE_RETRYING
            message = f"{title(work)} is tried again{words}"
        case Halted() if view.child is not None and view.child.queued:
            reason = ConditionReason.WAITING_FOR_QUOTA
            message = queue_words(snapshot.workload_of(view.child))
        case Lost():
            message = f"{title(work)} is done; its result is awaited."
        case _ if is_unreachable(attempts_of(view.status, work)) and failure is not None:
            reason, message = failure.reason, failure.message
    return Working(reason=reason, message=message)


def _explained(phase: Phase, facts: Mapping[ConditionType, Fact]) -> Phase:
    """The scheduler only says that no node fits; that none is of the target's kind says more."""
    target = facts.get(ConditionType.TARGET_AVAILABLE)
    if (
        isinstance(phase, Working)
        and phase.reason is FailureReason.UNSCHEDULABLE
        and target is not None
        and target.status is ConditionStatus.FALSE
    ):
        return Working(reason=target.reason, message=target.message)
    return phase


def _facts(view: View, phase: Phase, scene: Scene) -> dict[ConditionType, Fact]:
    spec = scene.job.spec
    facts = verdict_facts(
        view.status,
        least_retention_percent=spec.quality.min_retention_percent,
        least_utilization_percent=spec.budget.min_utilization_percent,
    )
    facts[ConditionType.SUSPENDED] = suspended_fact(view, paused=isinstance(phase, Paused))
    facts[ConditionType.ARTIFACTS_ACCESSIBLE] = artifacts_fact(view.status)
    if not isinstance(phase, Ending):
        facts[ConditionType.TARGET_AVAILABLE] = target_fact(scene.snapshot, scene.job)
        admitted = admitted_fact(scene.snapshot, view)
        if admitted is not None:
            facts[ConditionType.ADMITTED] = admitted
    return facts


def _conclude(
    snapshot: Snapshot,
    course: _Course,
    facts: Mapping[ConditionType, Fact],
    now: datetime,
) -> Plan:
    owner, phase = snapshot.job, course.phase
    over = isinstance(phase, Ending)
    before = owner.status
    status = course.status.model_copy(
        update={
            "observed_generation": owner.generation,
            "current_stage": _current(course.status),
            "completion_time": (course.status.completion_time or now) if over else None,
            "conditions": conditions(
                before.conditions,
                {**facts, **phase_facts(phase)},
                generation=owner.generation,
                now=now,
            ),
        }
    )
    # Through the schema once: times in whole seconds, texts in their bounds.
    status = CompressionJobStatus.model_validate(status.model_dump(mode="json", exclude_none=True))
    actions, due = course.actions, course.due
    if before.completion_time is not None and not over:
        # Nothing may run under conditions that say it is over: first they are written.
        actions, due = (), now
    if over:
        removal = _time_to_live(owner, status)
        if removal is not None and now >= removal:
            actions = (*actions, DeleteJob())
        due = _earliest(due, removal)
    return Plan(
        actions=actions,
        status=None if status == before else status,
        notices=notices(before, status),
        look_again_after=None if due is None else max(due - now, timedelta(0)),
    )


def _current(status: CompressionJobStatus) -> object:
    """The step that goes on, comes next or was the last; for people to read."""
    last = None
    for work, step in STEPS.items():
        if work is Work.PREFLIGHT and status.preflight is None:
            continue
        found = attempts_of(status, work)
        last = step if found.state is not StageState.PENDING or last is None else last
        if found.state is not StageState.SUCCEEDED:
            return step
    return last


def _time_to_live(owner: JobObject, status: CompressionJobStatus) -> datetime | None:
    seconds = owner.job.spec.run_policy.ttl_seconds_after_finished if owner.job else None
    if seconds is None or status.completion_time is None:
        return None
    return status.completion_time + timedelta(seconds=seconds)


def _stopping() -> Working:
    words = "Waits for pods to end; a stage that runs writes a checkpoint first."
    return Working(reason=ConditionReason.STOPPING, message=words)


def _delete(child: Child) -> Delete:
    return Delete(child=_ref(child))


def _ref(child: Child) -> ChildRef:
    return ChildRef(kind=child.kind, name=child.name, uid=child.uid)


def _earliest(*times: datetime | None) -> datetime | None:
    return min((time for time in times if time is not None), default=None)
