"""The kinds of objects that are watched: where they are served, and which of them are ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from autocompress.api import names
from autocompress.api.v1alpha1 import GROUP
from autocompress_operator.settings import Settings, Switch
from autocompress_operator.snapshot import ChildKind


class Kind(StrEnum):
    """What is watched, by plural name."""

    COMPRESSION_JOBS = names.PLURAL
    JOBS = "jobs"
    PODS = "pods"
    EVENTS = "events"
    NODES = "nodes"
    WORKLOADS = "workloads"
    JOB_SETS = "jobsets"
    TRAIN_JOBS = "trainjobs"


@dataclass(frozen=True, kw_only=True, slots=True)
class Resource:
    """A kind as the API server serves it. Selectors are the server's: others are never sent."""

    kind: Kind
    group: str
    version: str
    namespaced: bool = True
    label_selector: str = ""
    field_selector: str = ""

    @property
    def root(self) -> str:
        """The path of its group and version."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def path(self, namespace: str | None = None, name: str = "", subresource: str = "") -> str:
        """The path of one object, or of all in a namespace, or of all."""
        parts = [self.root]
        if namespace is not None:
            parts += ["namespaces", namespace]
        return "/".join(part for part in (*parts, self.kind.value, name, subresource) if part)


_OURS = f"{names.LABEL_MANAGED_BY}={names.MANAGER}"

RESOURCES: Mapping[Kind, Resource] = {
    resource.kind: resource
    for resource in (
        Resource(kind=Kind.COMPRESSION_JOBS, group=GROUP, version=names.VERSION),
        Resource(kind=Kind.JOBS, group="batch", version="v1", label_selector=_OURS),
        Resource(kind=Kind.PODS, group="", version="v1", label_selector=_OURS),
        Resource(
            kind=Kind.EVENTS,
            group="",
            version="v1",
            field_selector="involvedObject.kind=Job,reason=FailedCreate",
        ),
        Resource(kind=Kind.NODES, group="", version="v1", namespaced=False),
        Resource(kind=Kind.WORKLOADS, group="kueue.x-k8s.io", version="v1beta2"),
        Resource(
            kind=Kind.JOB_SETS, group="jobset.x-k8s.io", version="v1alpha2", label_selector=_OURS
        ),
        Resource(
            kind=Kind.TRAIN_JOBS,
            group="trainer.kubeflow.org",
            version="v1alpha1",
            label_selector=_OURS,
        ),
    )
}

SERVICES_PATH = "/api/v1/namespaces/{namespace}/services"
EVENTS_PATH = "/api/v1/namespaces/{namespace}/events"

CHILD_KINDS: Mapping[Kind, ChildKind] = {
    Kind.JOBS: ChildKind.JOB,
    Kind.JOB_SETS: ChildKind.JOB_SET,
    Kind.TRAIN_JOBS: ChildKind.TRAIN_JOB,
}
CHILD_RESOURCES: Mapping[ChildKind, Resource] = {
    child: RESOURCES[kind] for kind, child in CHILD_KINDS.items()
}


def watched(settings: Settings) -> tuple[Resource, ...]:
    """What the operator may and should watch."""
    switches = {
        Kind.NODES: settings.nodes,
        Kind.WORKLOADS: settings.kueue,
        Kind.JOB_SETS: settings.jobset,
        Kind.TRAIN_JOBS: settings.trainer,
    }
    return tuple(
        resource
        for resource in RESOURCES.values()
        if switches.get(resource.kind, Switch.ENABLED) is Switch.ENABLED
    )
