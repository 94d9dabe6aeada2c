"""What surrounds an attempt: room in the queue, nodes of the target, suspension; as facts."""

from __future__ import annotations

from autocompress.api.v1alpha1 import CompressionJob
from autocompress.api.v1alpha1.status import (
    ConditionReason,
    ConditionStatus,
    FailureReason,
)
from autocompress_operator.attempts import View
from autocompress_operator.conditions import Fact
from autocompress_operator.gpus import Found, find_nodes
from autocompress_operator.messages import short
from autocompress_operator.observation import Pending
from autocompress_operator.snapshot import Snapshot, Workload


def target_fact(snapshot: Snapshot, job: CompressionJob) -> Fact:
    """Whether a node of the target's kind exists; one may still be added."""
    accelerator = job.spec.target.accelerator.to_domain()
    if accelerator.product is None:
        return Fact(
            status=ConditionStatus.TRUE,
            reason=ConditionReason.NODE_FOUND,
            message="The target is a processor: any node will do.",
        )
    if snapshot.nodes is None:
        return Fact(
            status=ConditionStatus.UNKNOWN,
            reason=ConditionReason.PENDING,
            message="The operator may not read nodes; the scheduler will tell.",
        )
    match find_nodes(accelerator, snapshot.nodes):
        case Found(names=names):
            return Fact(
                status=ConditionStatus.TRUE,
                reason=ConditionReason.NODE_FOUND,
                message=f"{accelerator.product} is there, for example on node {names[0]}.",
            )
        case missing:
            return Fact(
                status=ConditionStatus.FALSE, reason=missing.reason, message=short(missing.message)
            )


def admitted_fact(snapshot: Snapshot, view: View) -> Fact | None:
    """Whether quota lets the current attempt run; nothing new while there is no attempt."""
    seen = view.observation
    if isinstance(seen, Pending) and seen.reason is FailureReason.QUOTA_EXCEEDED:
        return Fact(
            status=ConditionStatus.FALSE,
            reason=FailureReason.QUOTA_EXCEEDED,
            message=seen.message,
        )
    if view.child is None:
        return None
    if not view.child.queued:
        return Fact(status=ConditionStatus.TRUE, reason=ConditionReason.NOT_QUEUED)
    workload = snapshot.workload_of(view.child)
    if workload is not None and workload.preempted:
        return Fact(
            status=ConditionStatus.FALSE,
            reason=FailureReason.PREEMPTED,
            message=short(workload.message),
        )
    if view.child.suspended:
        return Fact(
            status=ConditionStatus.FALSE,
            reason=ConditionReason.WAITING_FOR_QUOTA,
            message=queue_words(workload),
        )
    return Fact(status=ConditionStatus.TRUE, reason=ConditionReason.ADMITTED)


def queue_words(workload: Workload | None) -> str:
    """Why the queue holds an attempt."""
    words = workload.message if workload is not None else ""
    return short(words or "Waits in Kueue's queue.")


def suspended_fact(view: View, *, paused: bool) -> Fact:
    """Whether nothing runs because of the spec, or because of the queue."""
    if paused:
        return Fact(status=ConditionStatus.TRUE, reason=ConditionReason.SUSPENDED_BY_SPEC)
    if view.child is not None and view.child.queued and view.child.suspended:
        return Fact(status=ConditionStatus.TRUE, reason=ConditionReason.SUSPENDED_BY_QUEUE)
    return Fact(status=ConditionStatus.FALSE, reason=ConditionReason.NOT_SUSPENDED)
