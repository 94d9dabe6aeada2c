"""API server objects, as JSON, into the values of ``snapshot``; what we do not use is dropped."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, TypeVar

from pydantic import AliasPath, BaseModel, ConfigDict, Field, JsonValue, ValidationError
from pydantic.alias_generators import to_camel

from autocompress.api.gpu_nodes import GPU_RESOURCE
from autocompress.api.names import (
    ANNOTATION_ATTEMPT,
    ANNOTATION_INPUT_DIGEST,
    ANNOTATION_RETRY_AT,
    KUEUE_LABELS,
    LABEL_JOB,
    LABEL_STAGE,
    STAGE_CONTAINER,
)
from autocompress.api.placement import require_cluster
from autocompress.api.reading import check_job
from autocompress.api.v1alpha1 import API_VERSION, KIND, CompressionJob
from autocompress.api.v1alpha1.status import CompressionJobStatus
from autocompress.contract.errors import SpecError
from autocompress_operator.snapshot import (
    Child,
    ChildKind,
    Finish,
    JobEvent,
    JobObject,
    JsonObject,
    Key,
    Node,
    Phase,
    Pod,
    Terminated,
    Waiting,
    Workload,
)
from autocompress_operator.work import Work

Value = TypeVar("Value", bound=BaseModel)

_WORKS = frozenset(Work)
_COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"


class UnreadableError(Exception):
    """An object of the API server is not what its kind promises."""


class _Raw(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", frozen=True)


class _Owner(_Raw):
    kind: str = ""
    name: str = ""
    uid: str
    controller: bool = False


class _Meta(_Raw):
    name: str
    namespace: str = ""
    uid: str
    resource_version: str = "0"
    generation: int = 0
    creation_timestamp: datetime
    deletion_timestamp: datetime | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[_Owner, ...] = ()

    @property
    def controller(self) -> _Owner | None:
        return next((owner for owner in self.owner_references if owner.controller), None)


class _Condition(_Raw):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None

    @property
    def holds(self) -> bool:
        return self.status == "True"


class _Conditions(_Raw):
    conditions: tuple[_Condition, ...] = ()

    def find(self, type_: str) -> _Condition | None:
        return next((found for found in self.conditions if found.type == type_), None)

    def holds(self, type_: str) -> bool:
        found = self.find(type_)
        return found is not None and found.holds


class _RawMeta(_Raw):
    metadata: _Meta


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """Which object it is, and which version of it."""

    namespace: str
    name: str
    uid: str
    resource_version: str


class _RawJob(_Raw):
    kind: str = KIND
    metadata: _Meta
    spec: JsonObject = Field(default_factory=dict)
    status: JsonObject = Field(default_factory=dict)


class _ChildSpec(_Raw):
    suspend: bool = False


class _ReplicatedStatus(_Raw):
    active: int = 0


class _ChildStatus(_Conditions):
    active: int = 0
    terminating: int = 0
    replicated_jobs_status: tuple[_ReplicatedStatus, ...] = ()
    jobs_status: tuple[_ReplicatedStatus, ...] = ()

    @property
    def pods(self) -> int:
        below = (*self.replicated_jobs_status, *self.jobs_status)
        return self.active + self.terminating + sum(status.active for status in below)


class _RawChild(_Raw):
    metadata: _Meta
    spec: _ChildSpec = Field(default_factory=_ChildSpec)
    status: _ChildStatus = Field(default_factory=_ChildStatus)


class _RawWaiting(_Raw):
    reason: str = ""
    message: str = ""


class _RawRunning(_Raw):
    started_at: datetime | None = None


class _RawTerminated(_Raw):
    exit_code: int
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


class _State(_Raw):
    waiting: _RawWaiting | None = None
    running: _RawRunning | None = None
    terminated: _RawTerminated | None = None


class _ContainerStatus(_Raw):
    name: str
    image_id: Annotated[str, Field(validation_alias="imageID")] = ""
    state: _State = Field(default_factory=_State)


class _PodStatus(_Conditions):
    phase: Phase = Phase.PENDING
    reason: str = ""
    message: str = ""
    pod_ip: Annotated[str | None, Field(validation_alias="podIP")] = None
    container_statuses: tuple[_ContainerStatus, ...] = ()


class _RawPod(_Raw):
    metadata: _Meta
    node_name: Annotated[str | None, Field(validation_alias=AliasPath("spec", "nodeName"))] = None
    status: _PodStatus = Field(default_factory=_PodStatus)


class _Involved(_Raw):
    name: str = ""


class _Series(_Raw):
    last_observed_time: datetime


class _RawEvent(_Raw):
    metadata: _Meta
    involved_object: _Involved
    reason: str = ""
    message: str = ""
    last_timestamp: datetime | None = None
    event_time: datetime | None = None
    series: _Series | None = None


class _RawWorkload(_Raw):
    metadata: _Meta
    status: _Conditions = Field(default_factory=_Conditions)


class _RawNode(_Raw):
    metadata: _Meta
    allocatable: Annotated[
        dict[str, str], Field(validation_alias=AliasPath("status", "allocatable"))
    ] = Field(default_factory=dict)


def read_job_object(raw: JsonValue) -> JobObject:
    """A CompressionJob; a spec that cannot be run is told in ``fault``.

    Raises:
        UnreadableError: metadata or status are not readable.
    """
    found = _parse(_RawJob, raw)
    meta = found.metadata
    try:
        status = CompressionJobStatus.model_validate(found.status)
    except ValidationError as error:
        raise UnreadableError(
            f"status of {KIND} {meta.namespace}/{meta.name} was not written by this operator or an "
            f"older one: {error.errors()[0]['msg']} at {error.errors()[0]['loc']}"
        ) from error
    job, fault = _checked(meta.name, found.spec)
    return JobObject(
        key=Key(namespace=meta.namespace, name=meta.name),
        uid=meta.uid,
        generation=meta.generation,
        resource_version=meta.resource_version,
        labels={name: meta.labels[name] for name in KUEUE_LABELS if name in meta.labels},
        retry_token=meta.annotations.get(ANNOTATION_RETRY_AT) or None,
        deletion_time=meta.deletion_timestamp,
        finalizers=meta.finalizers,
        spec=found.spec,
        job=job,
        fault=fault,
        status=status,
    )


def _checked(name: str, spec: JsonObject) -> tuple[CompressionJob | None, str]:
    document: JsonObject = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name},
        "spec": spec,
    }
    try:
        job = check_job(document, name=name)
        require_cluster(job)
    except SpecError as error:
        return None, str(error)
    return job, ""


def read_child(kind: ChildKind, raw: JsonValue) -> Child | None:
    """A Job, JobSet or TrainJob; None where it is not the direct work of a CompressionJob."""
    found = _parse(_RawChild, raw)
    meta, status = found.metadata, found.status
    stage, attempt = meta.labels.get(LABEL_STAGE), meta.annotations.get(ANNOTATION_ATTEMPT, "")
    owner = meta.controller
    if stage not in _WORKS or not attempt.isdigit() or (owner and owner.kind != KIND):
        return None
    return Child(
        kind=kind,
        name=meta.name,
        uid=meta.uid,
        owner_uid=owner.uid if owner else None,
        work=Work(stage),
        attempt=int(attempt),
        input_digest=meta.annotations.get(ANNOTATION_INPUT_DIGEST, ""),
        created=meta.creation_timestamp,
        deleting=meta.deletion_timestamp is not None,
        queued=KUEUE_LABELS[0] in meta.labels,
        suspended=found.spec.suspend,
        active=status.pods,
        finish=_finish(status, meta),
    )


def _finish(status: _Conditions, meta: _Meta) -> Finish | None:
    for type_, succeeded in (
        ("Complete", True),
        ("Completed", True),
        ("Failed", False),
    ):
        condition = status.find(type_)
        if condition is not None and condition.holds:
            return Finish(
                succeeded=succeeded,
                reason=condition.reason,
                message=condition.message,
                time=condition.last_transition_time or meta.creation_timestamp,
            )
    return None


def read_pod(raw: JsonValue) -> Pod | None:
    """A pod of a child; None for any other."""
    found = _parse(_RawPod, raw)
    meta, status = found.metadata, found.status
    stage, attempt = meta.labels.get(LABEL_STAGE), meta.annotations.get(ANNOTATION_ATTEMPT, "")
    if stage not in _WORKS or not attempt.isdigit():
        return None
    container = _container(status)
    state = container.state if container else _State()
    scheduled, disruption = status.find("PodScheduled"), status.find("DisruptionTarget")
    waits = scheduled is not None and scheduled.status == "False"
    index = meta.labels.get(_COMPLETION_INDEX) or meta.annotations.get(_COMPLETION_INDEX, "")
    return Pod(
        name=meta.name,
        uid=meta.uid,
        work=Work(stage),
        attempt=int(attempt),
        index=int(index) if index.isdigit() else 0,
        created=meta.creation_timestamp,
        deleting=meta.deletion_timestamp is not None,
        phase=status.phase,
        reason=status.reason,
        message=status.message,
        node=found.node_name,
        ip=status.pod_ip,
        image_id=container.image_id or None if container else None,
        scheduled=scheduled.last_transition_time if scheduled and scheduled.holds else None,
        running_since=state.running.started_at if state.running else None,
        waiting=Waiting(reason=state.waiting.reason, message=state.waiting.message)
        if state.waiting
        else None,
        terminated=Terminated(
            exit_code=state.terminated.exit_code,
            reason=state.terminated.reason,
            message=state.terminated.message,
            started=state.terminated.started_at,
            finished=state.terminated.finished_at,
        )
        if state.terminated
        else None,
        unschedulable=scheduled.message if scheduled and waits else None,
        disruption=disruption.reason if disruption and disruption.holds else None,
        disruption_message=disruption.message if disruption and disruption.holds else "",
    )


def _container(status: _PodStatus) -> _ContainerStatus | None:
    # A training runtime names its container itself; it has one.
    statuses = status.container_statuses
    named = (one for one in statuses if one.name == STAGE_CONTAINER)
    return next(named, statuses[0] if statuses else None)


def read_event(raw: JsonValue) -> JobEvent:
    """An Event about a Job."""
    found = _parse(_RawEvent, raw)
    seen = found.series.last_observed_time if found.series else None
    return JobEvent(
        job_name=found.involved_object.name,
        reason=found.reason,
        message=found.message,
        last_seen=seen
        or found.last_timestamp
        or found.event_time
        or found.metadata.creation_timestamp,
    )


def read_workload(raw: JsonValue) -> Workload | None:
    """A Workload of Kueue; None where nothing owns it."""
    found = _parse(_RawWorkload, raw)
    owner, status = found.metadata.controller, found.status
    if owner is None:
        return None
    reserved, evicted = status.find("QuotaReserved"), status.find("Evicted")
    preempted = evicted is not None and evicted.holds and evicted.reason == "Preempted"
    words = evicted if preempted else reserved
    return Workload(
        owner_uid=owner.uid,
        owner_name=owner.name,
        admitted=status.holds("Admitted"),
        message=words.message if words else "",
        preempted=preempted,
    )


def read_node(raw: JsonValue) -> Node:
    """A node: GPU labels and how many GPUs it offers."""
    found = _parse(_RawNode, raw)
    count = found.allocatable.get(GPU_RESOURCE, "0")
    return Node(
        name=found.metadata.name,
        labels={
            name: value
            for name, value in found.metadata.labels.items()
            if name.startswith("nvidia.com/")
        },
        gpus=int(count) if count.isdigit() else 0,
    )


def read_key(raw: JsonValue) -> Key | None:
    """The CompressionJob that an object names in its label."""
    meta = _parse(_RawMeta, raw).metadata
    name = meta.labels.get(LABEL_JOB)
    return Key(namespace=meta.namespace, name=name) if name else None


def read_identity(raw: JsonValue) -> Identity:
    """Which object it is, and which version of it."""
    meta = _parse(_RawMeta, raw).metadata
    return Identity(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
    )


def _parse(kind: type[Value], raw: JsonValue) -> Value:
    try:
        return kind.model_validate(raw)
    except ValidationError as error:
        fault = error.errors()[0]
        raise UnreadableError(f"{kind.__name__}: {fault['msg']} at {fault['loc']}") from error
