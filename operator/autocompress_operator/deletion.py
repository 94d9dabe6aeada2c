"""A CompressionJob on its way out: stages end, artifacts go where that is wanted, within bounds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from autocompress.api.names import FINALIZER
from autocompress.api.v1alpha1.artifacts import DeletionPolicy
from autocompress_operator import jobs
from autocompress_operator.actions import (
    Action,
    ChildRef,
    Create,
    Delete,
    DropFinalizer,
    Notice,
    Severity,
)
from autocompress_operator.attempts import cleanup_digest
from autocompress_operator.pods import Task
from autocompress_operator.settings import Settings
from autocompress_operator.snapshot import Child, JobObject, Refusal, RefusalKind, Snapshot
from autocompress_operator.work import Work

_LOOK_AGAIN = timedelta(seconds=5)
_REFUSED_AGAIN = timedelta(seconds=30)


@dataclass(frozen=True, kw_only=True, slots=True)
class Removal:
    """What to do before a job may go."""

    actions: tuple[Action, ...] = ()
    notices: tuple[Notice, ...] = ()
    look_again_after: timedelta | None = None


def plan_removal(snapshot: Snapshot, now: datetime, settings: Settings) -> Removal:
    """Decide about a CompressionJob that is being deleted.

    Without our finalizer there is nothing to do: children go with their owner.
    """
    owner = snapshot.job
    if FINALIZER not in owner.finalizers or owner.deletion_time is None:
        return Removal()
    if not _cleans_up(owner):
        return Removal(actions=(DropFinalizer(),))
    live = [c for c in snapshot.children if c.live and c.work is not Work.CLEANUP]
    if live:
        return Removal(
            actions=tuple(
                Delete(child=ChildRef(kind=child.kind, name=child.name, uid=child.uid))
                for child in live
                if not child.deleting
            ),
            look_again_after=_LOOK_AGAIN,
        )
    return _cleanup(snapshot, owner.deletion_time, now, settings)


def _cleans_up(owner: JobObject) -> bool:
    artifacts = owner.job.spec.artifacts if owner.job else None
    return artifacts is not None and artifacts.deletion_policy is DeletionPolicy.DELETE


def _cleanup(
    snapshot: Snapshot, deletion_time: datetime, now: datetime, settings: Settings
) -> Removal:
    child, refusal = snapshot.child(Work.CLEANUP, 1), snapshot.refusals.get(Work.CLEANUP)
    until = deletion_time + timedelta(seconds=settings.cleanup_seconds)
    if child is not None and child.finish is not None and child.finish.succeeded:
        return Removal(actions=(DropFinalizer(),))
    why = _hopeless(child, refusal)
    if not why and now >= until:
        why = f"it was not done within {settings.cleanup_seconds} seconds"
    if why:
        return _abandoned(why)
    if refusal is not None:
        return Removal(look_again_after=min(until - now, _REFUSED_AGAIN))
    if child is not None:
        return Removal(look_again_after=until - now)
    return Removal(actions=(_create(snapshot.job, settings),), look_again_after=until - now)


def _hopeless(child: Child | None, refusal: Refusal | None) -> str:
    if child is not None and child.finish is not None:
        return f"the cleanup failed: {child.finish.message}"
    if refusal is not None and refusal.kind is RefusalKind.NAMESPACE_TERMINATING:
        # No Job can be created any more, and the namespace must be able to go.
        return "the namespace is being deleted"
    return ""


def _create(owner: JobObject, settings: Settings) -> Create:
    if owner.job is None:
        raise ValueError("a job that cannot be read has nothing to clean up")
    task = Task(
        owner=owner,
        job=owner.job,
        work=Work.CLEANUP,
        attempt=1,
        input_digest=cleanup_digest(owner),
        settings=settings,
    )
    return Create(
        work=Work.CLEANUP,
        attempt=task.attempt,
        name=jobs.child_name(task),
        input_digest=task.input_digest,
        manifests=jobs.manifests(task),
    )


def _abandoned(why: str) -> Removal:
    return Removal(
        actions=(DropFinalizer(),),
        notices=(
            Notice(
                severity=Severity.WARNING,
                reason="CleanupAbandoned",
                action="Cleanup",
                message=f"Artifacts were not deleted: {why}. Delete them by hand.",
            ),
        ),
    )
