"""What the cluster shows now for one CompressionJob, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from pydantic import JsonValue

from autocompress.api.v1alpha1 import CompressionJob
from autocompress.api.v1alpha1.status import CompressionJobStatus, Progress
from autocompress_operator.work import Work

JsonObject = dict[str, JsonValue]


@dataclass(frozen=True, kw_only=True, slots=True)
class Key:
    """One CompressionJob."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, kw_only=True, slots=True)
class JobObject:
    """The CompressionJob. ``job`` is None where the spec is refused; ``fault`` then says why.

    ``spec`` is as the API server has it.
    """

    key: Key
    uid: str
    generation: int
    resource_version: str
    labels: Mapping[str, str]
    retry_token: str | None
    deletion_time: datetime | None
    finalizers: tuple[str, ...]
    spec: JsonObject
    job: CompressionJob | None
    fault: str
    status: CompressionJobStatus


class ChildKind(StrEnum):
    """What runs a piece of work."""

    JOB = "Job"
    JOB_SET = "JobSet"
    TRAIN_JOB = "TrainJob"


API_VERSIONS: Mapping[ChildKind, str] = {
    ChildKind.JOB: "batch/v1",
    ChildKind.JOB_SET: "jobset.x-k8s.io/v1alpha2",
    ChildKind.TRAIN_JOB: "trainer.kubeflow.org/v1alpha1",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Finish:
    """How a child ended by its own account."""

    succeeded: bool
    reason: str
    message: str
    time: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Child:
    """A Job, JobSet or TrainJob of a CompressionJob."""

    kind: ChildKind
    name: str
    uid: str
    owner_uid: str | None
    work: Work
    attempt: int
    input_digest: str
    created: datetime
    deleting: bool
    queued: bool
    suspended: bool
    active: int
    finish: Finish | None

    @property
    def live(self) -> bool:
        """Whether it may hold pods, now or later."""
        return self.finish is None


class Phase(StrEnum):
    """A pod's phase."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiting:
    """A container that does not run yet."""

    reason: str
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Terminated:
    """A container that ended; ``message`` is its termination message."""

    exit_code: int
    reason: str
    message: str
    started: datetime | None
    finished: datetime | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Pod:
    """A pod of a child, with the state of its one container that counts."""

    name: str
    uid: str
    work: Work
    attempt: int
    index: int
    created: datetime
    deleting: bool
    phase: Phase
    reason: str = ""
    message: str = ""
    node: str | None = None
    ip: str | None = None
    image_id: str | None = None
    scheduled: datetime | None = None
    running_since: datetime | None = None
    waiting: Waiting | None = None
    terminated: Terminated | None = None
    #: The scheduler's words where it found no node.
    unschedulable: str | None = None
    #: Why the cluster itself ends the pod, and in which words.
    disruption: str | None = None
    disruption_message: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobEvent:
    """A Warning of the Job controller: it could not create a pod."""

    job_name: str
    reason: str
    message: str
    last_seen: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """Kueue's view of a child."""

    owner_uid: str
    owner_name: str
    admitted: bool
    #: Why not, in Kueue's words; empty while it has not looked yet.
    message: str
    preempted: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """What of a node decides whether a target fits it."""

    name: str
    labels: Mapping[str, str]
    gpus: int


class RefusalKind(StrEnum):
    """Why the API server did not create a child."""

    QUOTA = "Quota"
    FORBIDDEN = "Forbidden"
    INVALID = "Invalid"
    NOT_INSTALLED = "NotInstalled"
    NAMESPACE_TERMINATING = "NamespaceTerminating"
    NAME_TAKEN = "NameTaken"
    ENDING = "Ending"


@dataclass(frozen=True, kw_only=True, slots=True)
class Refusal:
    """A child that could not be created; ``message`` is the API server's."""

    kind: RefusalKind
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """Everything a decision is made from, beside the time and the settings.

    ``nodes`` is None where nodes are not visible; ``installed`` are the kinds that the API server
    serves; ``progress`` goes by pod uid, ``refusals`` by what was to be created in this pass.
    """

    job: JobObject
    children: tuple[Child, ...] = ()
    pods: tuple[Pod, ...] = ()
    events: tuple[JobEvent, ...] = ()
    workloads: tuple[Workload, ...] = ()
    nodes: tuple[Node, ...] | None = None
    installed: frozenset[ChildKind] = frozenset({ChildKind.JOB})
    progress: Mapping[str, Progress] = field(default_factory=dict)
    refusals: Mapping[Work, Refusal] = field(default_factory=dict)

    def child(self, work: Work, attempt: int) -> Child | None:
        """The child of an attempt; of several that one which still runs, then the newest."""
        found = [c for c in self.children if c.work is work and c.attempt == attempt]
        return max(found, key=lambda c: (c.live, c.created, c.name), default=None)

    def pods_of(self, child: Child) -> tuple[Pod, ...]:
        """The pods of a child, oldest first; those of an earlier one of the same name are not."""
        found = [
            pod
            for pod in self.pods
            if pod.work is child.work
            and pod.attempt == child.attempt
            and pod.created >= child.created
        ]
        return tuple(sorted(found, key=lambda pod: (pod.created, pod.name)))

    def events_of(self, child: Child) -> tuple[JobEvent, ...]:
        """The warnings about a child or the Jobs below it, oldest first."""
        found = [
            event
            for event in self.events
            if event.last_seen >= child.created
            and (event.job_name == child.name or event.job_name.startswith(f"{child.name}-"))
        ]
        return tuple(sorted(found, key=lambda event: (event.last_seen, event.message)))

    def workload_of(self, child: Child) -> Workload | None:
        """What Kueue says of a child."""
        return next((item for item in self.workloads if item.owner_uid == child.uid), None)
