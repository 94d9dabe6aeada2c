"""From what is recorded and what is seen to what is so now: the attempts of a job, moved on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import ValidationError

from autocompress.api.v1alpha1 import CompressionJob
from autocompress.api.v1alpha1.running import PreflightPolicy, StageName
from autocompress.api.v1alpha1.status import (
    Attempts,
    CompressionJobStatus,
    ConditionReason,
    Failure,
    FailureReason,
    JobRef,
    Resolved,
    StageState,
    StageStatus,
)
from autocompress.contract.digest import digest
from autocompress.contract.stage import UPSTREAM, Stage, input_digest
from autocompress_operator import pods, reports
from autocompress_operator.endings import (
    attempts_of,
    current_work,
    ending,
    is_unreachable,
    stage_of,
)
from autocompress_operator.failures import deadline_failure, make_failure
from autocompress_operator.messages import create_failure, with_remedy
from autocompress_operator.observation import (
    Completed,
    Failed,
    Halted,
    Lost,
    Observation,
    Pending,
    Retrying,
    Running,
    observe,
)
from autocompress_operator.settings import Settings, Switch
from autocompress_operator.snapshot import (
    API_VERSIONS,
    Child,
    ChildKind,
    JobObject,
    RefusalKind,
    Snapshot,
)
from autocompress_operator.work import STAGE_NAMES, STAGES, Work, title

_FIRST_DELAY = timedelta(seconds=30)
_LONGEST_DELAY = timedelta(minutes=10)
_DOUBLINGS = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """Where a job stands after everything seen is recorded.

    ``work`` is what goes on or comes next, None at the end; ``child`` its attempt's child, None
    where there is none yet; ``due`` is when to look again though nothing happens.
    """

    status: CompressionJobStatus
    work: Work | None
    child: Child | None = None
    observation: Observation | None = None
    due: datetime | None = None


def begin(
    status: CompressionJobStatus, job: CompressionJob, settings: Settings
) -> CompressionJobStatus:
    """Every attempt in its place, from the first visit on."""
    wanted = (
        settings.preflight is Switch.ENABLED
        and job.spec.run_policy.preflight is PreflightPolicy.ENABLED
    )
    preflight = status.preflight or (Attempts() if wanted else None)
    stages = tuple(status.stage(name) or StageStatus(name=name) for name in StageName)
    return status.model_copy(update={"preflight": preflight, "stages": stages})


def with_attempts(
    status: CompressionJobStatus, work: Work, update: Mapping[str, object]
) -> CompressionJobStatus:
    """Status with fields of one attempt changed."""
    changed = attempts_of(status, work).model_copy(update=dict(update))
    if isinstance(changed, StageStatus):
        stages = tuple(changed if s.name is changed.name else s for s in status.stages)
        return status.model_copy(update={"stages": stages})
    return status.model_copy(update={"preflight": changed})


def retried(status: CompressionJobStatus, token: str | None, now: datetime) -> CompressionJobStatus:
    """What a new retry token asks for: another attempt at what failed."""
    if token is None or token == status.last_handled_retry_at:
        return status
    again = [
        work
        for work in (Work.PREFLIGHT, *STAGES)
        if attempts_of(status, work).state is StageState.FAILED
    ]
    if again:
        status = status.model_copy(update={"start_time": now, "completion_time": None})
    if any(_damaged(status, work) for work in again):
        # An input may be damaged: what made it runs again. Where its result is whole, that is
        # a look and no more.
        again = [work for work in STAGES if stage_of(status, work).state is not StageState.PENDING]
    for work in again:
        status = next_attempt(status, work)
    return status.model_copy(update={"last_handled_retry_at": token})


def _damaged(status: CompressionJobStatus, work: Work) -> bool:
    failure = attempts_of(status, work).last_failure
    downstream = work in STAGES and bool(UPSTREAM[STAGES[work]])
    return downstream and failure is not None and failure.reason is FailureReason.BAD_DATA


def next_attempt(status: CompressionJobStatus, work: Work) -> CompressionJobStatus:
    """Status with one more attempt at a piece of work before it."""
    update: dict[str, object] = {
        "state": StageState.PENDING,
        "attempt": attempts_of(status, work).attempt + 1,
        "job_ref": None,
        "input_digest": None,
        "start_time": None,
        "completion_time": None,
    }
    if work in STAGES:
        update |= {"progress": None, "outcome": None, "message": None, "outputs": None}
    return with_attempts(status, work, update)


def failed(
    status: CompressionJobStatus, work: Work, failure: Failure, finished: datetime
) -> CompressionJobStatus:
    """Status with an attempt over."""
    update: dict[str, object] = {
        "state": StageState.FAILED,
        "last_failure": failure,
        "completion_time": finished,
    }
    if work in STAGES:
        update["progress"] = None
    return with_attempts(status, work, update)


@dataclass(frozen=True, kw_only=True, slots=True)
class Scene:
    """All that a decision is made from, for a job whose spec can be run."""

    snapshot: Snapshot
    job: CompressionJob
    now: datetime
    settings: Settings


def advance(status: CompressionJobStatus, scene: Scene) -> View:
    """Record everything that the cluster shows about the attempts, in their order."""
    status = _engine_missing(status, scene)
    while ending(status) is None and (work := current_work(status)) is not None:
        step = _step(status, scene, work)
        if isinstance(step, View):
            return step
        status = step
    return View(status=status, work=None)


def _step(status: CompressionJobStatus, scene: Scene, work: Work) -> View | CompressionJobStatus:
    """The view of an attempt that goes on, or status with its end in it."""
    attempts = attempts_of(status, work)
    if work is Work.PREFLIGHT and is_unreachable(attempts):
        due = _again_at(attempts, scene.now)
        if scene.now < due:
            return View(status=status, work=work, due=due)
        return next_attempt(status, work)
    child = scene.snapshot.child(work, attempts.attempt)
    if child is None:
        return _unborn(status, scene, work)
    update: dict[str, object] = {"job_ref": _ref(child.kind, child.name)}
    if child.input_digest:
        update["input_digest"] = child.input_digest
    return _observed(with_attempts(status, work, update), scene, child)


def _engine_missing(status: CompressionJobStatus, scene: Scene) -> CompressionJobStatus:
    """Say before the first GPU hour that recovery has nothing to run on."""
    kind = ChildKind(scene.job.spec.recovery.engine.value)
    recover = stage_of(status, Work.RECOVER)
    if kind in scene.snapshot.installed or recover.state is not StageState.PENDING:
        return status
    reason = FailureReason.ENGINE_NOT_INSTALLED
    what = (
        f"spec.recovery.engine is {kind}, which this cluster does not serve ({API_VERSIONS[kind]}) "
        "or which the operator's chart has switched off"
    )
    return failed(status, Work.RECOVER, make_failure(reason, what), scene.now)


def _again_at(attempts: Attempts, now: datetime) -> datetime:
    delay = _FIRST_DELAY
    for _ in range(min(attempts.attempt - 1, _DOUBLINGS)):
        delay += delay
    return (attempts.completion_time or now) + min(delay, _LONGEST_DELAY)


def _unborn(status: CompressionJobStatus, scene: Scene, work: Work) -> View | CompressionJobStatus:
    """No child yet: it is to be created, or was refused."""
    refusal = scene.snapshot.refusals.get(work)
    if refusal is None:
        status = with_attempts(status, work, {"state": StageState.PENDING})
        return View(status=status, work=work)
    reason, what = create_failure(refusal.message)
    match refusal.kind:
        case RefusalKind.INVALID:
            what = f"The API server refuses the manifest: {what}"
            return failed(status, work, make_failure(reason, what), scene.now)
        case RefusalKind.NOT_INSTALLED:
            reason = FailureReason.ENGINE_NOT_INSTALLED
            return failed(status, work, make_failure(reason, refusal.message), scene.now)
        case RefusalKind.ENDING:
            waiting = Pending(reason=ConditionReason.STOPPING, message=refusal.message)
        case _:
            waiting = Pending(reason=reason, message=with_remedy(reason, what))
    status = with_attempts(status, work, {"state": StageState.PENDING})
    return View(status=status, work=work, observation=waiting)


def _observed(
    status: CompressionJobStatus, scene: Scene, child: Child
) -> View | CompressionJobStatus:
    work, settings = child.work, scene.settings
    seen = observe(
        child,
        scene.snapshot.pods_of(child),
        scene.snapshot.events_of(child),
        now=scene.now,
        start_grace=timedelta(seconds=settings.start_grace_seconds),
    )
    due = None
    update: dict[str, object] = {}
    match seen:
        case Completed():
            return _succeeded(status, scene, work, seen)
        case Failed(failure=failure, finished=finished):
            return failed(status, work, failure, finished or scene.now)
        case Lost(finished=finished):
            due = finished + timedelta(seconds=settings.report_grace_seconds)
            if scene.now >= due:
                return next_attempt(status, work)
        case Pending(until=until):
            due = until
            update = {"state": StageState.PENDING}
        case Running():
            update = _running(attempts_of(status, work), scene.snapshot, seen)
        case Retrying(failure=again):
            update = {"state": StageState.RUNNING}
            if again is not None:
                update["last_failure"] = again
        case Halted():
            update = {"state": StageState.PENDING}
    status = with_attempts(status, work, update)
    return View(status=status, work=work, child=child, observation=seen, due=due)


def _running(attempts: Attempts, snapshot: Snapshot, seen: Running) -> dict[str, object]:
    started = [pod.running_since for pod in seen.pods if pod.running_since is not None]
    update: dict[str, object] = {
        "state": StageState.RUNNING,
        "start_time": attempts.start_time or min(started),
    }
    if seen.failure is not None:
        update["last_failure"] = seen.failure
    first = min(seen.pods, key=lambda pod: pod.index)
    if isinstance(attempts, StageStatus) and first.uid in snapshot.progress:
        update["progress"] = snapshot.progress[first.uid]
    return update


def _succeeded(
    status: CompressionJobStatus, scene: Scene, work: Work, done: Completed
) -> CompressionJobStatus:
    if work is Work.PREFLIGHT:
        moved = _probed(status, done)
    else:
        moved = _finished(status, scene, work, done)
    try:
        CompressionJobStatus.model_validate(moved.model_dump(mode="json", exclude_none=True))
    except ValidationError as error:
        fault = error.errors()[0]
        what = (
            f"{title(work)} left a result that status cannot hold: {fault['loc']}: {fault['msg']}"
        )
        failure = make_failure(FailureReason.INTERNAL_ERROR, what)
        return failed(status, work, failure, done.finished)
    return moved


def _finished(
    status: CompressionJobStatus, scene: Scene, work: Work, done: Completed
) -> CompressionJobStatus:
    name = STAGE_NAMES[work]
    stages = tuple(
        reports.succeed(stage, done) if stage.name is name else stage for stage in status.stages
    )
    return reports.record(
        status.model_copy(update={"stages": stages}),
        name,
        done,
        product=scene.job.spec.target.accelerator.product,
        nodes=scene.snapshot.nodes or (),
    )


def _probed(status: CompressionJobStatus, done: Completed) -> CompressionJobStatus:
    started = attempts_of(status, Work.PREFLIGHT).start_time
    if started is None and done.pod.terminated is not None:
        started = done.pod.terminated.started
    update = {
        "state": StageState.SUCCEEDED,
        "start_time": started,
        "completion_time": done.finished,
    }
    status = with_attempts(status, Work.PREFLIGHT, update)
    if not done.report.source_revision:
        return status
    resolved = (status.resolved or Resolved()).model_copy(
        update={"source_revision": done.report.source_revision}
    )
    return status.model_copy(update={"resolved": resolved})


def expired(
    view: View, job: CompressionJob, now: datetime
) -> tuple[CompressionJobStatus, datetime | None]:
    """Status with the job's deadline applied, and when it will be."""
    seconds = job.spec.run_policy.active_deadline_seconds
    started = view.status.start_time
    if seconds is None or started is None or view.work is None:
        return view.status, None
    due = started + timedelta(seconds=seconds)
    if now < due:
        return view.status, due
    return failed(view.status, view.work, deadline_failure(view.work), now), None


def task(
    owner: JobObject,
    job: CompressionJob,
    status: CompressionJobStatus,
    work: Work,
    settings: Settings,
) -> pods.Task:
    """The attempt that status says is next."""
    return pods.Task(
        owner=owner,
        job=job,
        work=work,
        attempt=attempts_of(status, work).attempt,
        input_digest=work_digest(owner, job, status, work),
        settings=settings,
    )


def work_digest(
    owner: JobObject, job: CompressionJob, status: CompressionJobStatus, work: Work
) -> str:
    """What an attempt works on, as far as is known before it runs."""
    if work is Work.PREFLIGHT:
        return digest(("preflight", pods.job_document(owner)))
    if work is Work.CLEANUP:
        return cleanup_digest(owner)
    stage = STAGES[work]
    resolved = status.resolved.source_revision if status.resolved else None
    return input_digest(
        stage,
        job.to_domain(),
        source_revision=resolved or job.spec.source.revision or "",
        upstream={upstream: _output(status, upstream) for upstream in UPSTREAM[stage]},
    )


def cleanup_digest(owner: JobObject) -> str:
    """Cleanup works on what this very object has used."""
    return digest(("cleanup", owner.uid))


def _output(status: CompressionJobStatus, stage: Stage) -> str:
    outputs = stage_of(status, Work(stage.value)).outputs
    return outputs.digest if outputs else ""


def created(
    status: CompressionJobStatus, work: Work, kind: ChildKind, name: str, input_digest: str
) -> CompressionJobStatus:
    """Status with an attempt's child named."""
    update = {"job_ref": _ref(kind, name), "input_digest": input_digest}
    return with_attempts(status, work, update)


def _ref(kind: ChildKind, name: str) -> JobRef:
    return JobRef(api_version=API_VERSIONS[kind], kind=kind.value, name=name)
