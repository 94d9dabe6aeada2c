"""Logs of the pods that work on a job."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from pydantic import Field

from autocompress.api.names import LABEL_JOB, LABEL_STAGE, STAGE_CONTAINER
from autocompress.api.v1alpha1.status import StatusPart
from autocompress.cluster.client import Cluster
from autocompress.contract.errors import DataError, TryLaterError

_POLL_SECONDS = 2.0
_READ_SECONDS = 60.0


class Step(StrEnum):
    """All that runs in pods, as their label says."""

    PREFLIGHT = "preflight"
    PROFILE = "profile"
    SEARCH = "search"
    RECOVER = "recover"
    VALIDATE = "validate"
    CLEANUP = "cleanup"


@dataclass(frozen=True, kw_only=True, slots=True)
class StagePod:
    """A pod of a stage. ``waiting`` says why its container has not started; empty once it has."""

    namespace: str
    name: str
    stage: str
    created: str
    waiting: str


class _Metadata(StatusPart):
    name: str
    creation_timestamp: str
    labels: dict[str, str] = Field(default_factory=dict)


class _Reason(StatusPart):
    reason: str = ""
    message: str = ""

    def __str__(self) -> str:
        return ": ".join(part for part in (self.reason, self.message) if part)


class _State(StatusPart):
    waiting: _Reason | None = None


class _Container(StatusPart):
    name: str
    state: _State = _State()


class _Condition(_Reason):
    type: str
    status: str


class _Status(StatusPart):
    container_statuses: tuple[_Container, ...] = ()
    conditions: tuple[_Condition, ...] = ()


class _Pod(StatusPart):
    metadata: _Metadata
    status: _Status = _Status()


class _Pods(StatusPart):
    items: tuple[_Pod, ...]


def newest_pod(cluster: Cluster, namespace: str, job: str, stage: Step | None) -> StagePod:
    """The youngest pod of a job, or of one of its stages.

    Raises:
        DataError: there is none.
        AccessError, UnavailableError: as ``Cluster.get``.
    """
    selector = f"{LABEL_JOB}={job}" + (f",{LABEL_STAGE}={stage}" if stage else "")
    found = _Pods.model_validate_json(
        cluster.get(f"/api/v1/namespaces/{namespace}/pods", {"labelSelector": selector})
    )
    if not found.items:
        what = f"stage {stage} of {job}" if stage else job
        raise DataError(
            f"no pod of {what} is in namespace {namespace}; it has not started, or was removed "
            f"after its end: kubectl describe -n {namespace} compressionjob/{job} tells"
        )
    return max((_stage_pod(namespace, pod) for pod in found.items), key=lambda pod: pod.created)


def log_lines(cluster: Cluster, pod: StagePod) -> Iterator[bytes]:
    """What a pod's stage has written so far.

    Raises:
        TryLaterError: its container has not started.
        AccessError, UnavailableError: as ``Cluster.lines``.
    """
    if pod.waiting:
        raise TryLaterError(
            f"pod {pod.name} has not started ({pod.waiting}); wait with -f, or see kubectl "
            f"describe -n {pod.namespace} pod/{pod.name}"
        )
    yield from cluster.lines(
        _path(pod), {"container": STAGE_CONTAINER}, accept="*/*", read_seconds=_READ_SECONDS
    )


def follow(cluster: Cluster, pod: StagePod, job: str, stage: Step | None) -> Iterator[bytes]:
    """The same as it is written, to the pod's end; a pod that has not started is waited for, and
    so is one that replaces it.

    Raises:
        DataError: it went away.
        AccessError, UnavailableError: as ``Cluster.lines``.
    """
    while pod.waiting:
        time.sleep(_POLL_SECONDS)
        pod = newest_pod(cluster, pod.namespace, job, stage)
    yield from cluster.lines(
        _path(pod),
        {"container": STAGE_CONTAINER, "follow": "true"},
        accept="*/*",
        read_seconds=None,
    )


def _path(pod: StagePod) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/log"


def _stage_pod(namespace: str, pod: _Pod) -> StagePod:
    return StagePod(
        namespace=namespace,
        name=pod.metadata.name,
        stage=pod.metadata.labels.get(LABEL_STAGE, ""),
        created=pod.metadata.creation_timestamp,
        waiting=_waiting(pod.status),
    )


def _waiting(status: _Status) -> str:
    """Why the stage's container has no log yet."""
    container = next((c for c in status.container_statuses if c.name == STAGE_CONTAINER), None)
    if container is not None:
        return str(container.state.waiting or "")
    scheduled = next((c for c in status.conditions if c.type == "PodScheduled"), None)
    if scheduled is not None and scheduled.status != "True":
        return str(scheduled) or "not scheduled"
    return "no container yet"
