"""From watch events, lists and answers into the cache; each says which jobs it concerns."""

from __future__ import annotations

import re
from typing import Protocol

from pydantic import JsonValue

from autocompress_operator.cache import Cache
from autocompress_operator.reading import (
    Identity,
    UnreadableError,
    read_child,
    read_event,
    read_identity,
    read_job_object,
    read_key,
    read_node,
    read_pod,
    read_workload,
)
from autocompress_operator.resources import CHILD_KINDS, Kind
from autocompress_operator.snapshot import Child, ChildKind, Key
from autocompress_operator.work import Work

_CHILD_NAME = re.compile(rf"^(?P<job>.+)-(?:{'|'.join(Work)})-[0-9a-f]{{8}}(?:-.*)?$")


class _Droppable(Protocol):
    def drop(self, uid: str) -> Key | None:
        """Forget an object."""


class Store:
    """Writes to a cache. Every method returns the jobs that should be visited."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def put(self, kind: Kind, raw: JsonValue) -> frozenset[Key]:
        """Take in a version of an object.

        Raises:
            UnreadableError: it is not what its kind promises.
        """
        identity = read_identity(raw)
        match kind:
            case Kind.COMPRESSION_JOBS:
                return self._put_job(identity, raw)
            case Kind.NODES:
                return self._put_node(raw)
            case Kind.JOBS | Kind.JOB_SETS | Kind.TRAIN_JOBS:
                return self._put_child(CHILD_KINDS[kind], identity, raw)
            case Kind.PODS:
                return self._put_pod(identity, raw)
            case Kind.EVENTS:
                return self._put_event(identity, raw)
            case Kind.WORKLOADS:
                return self._put_workload(identity, raw)

    def drop(self, kind: Kind, raw: JsonValue) -> frozenset[Key]:
        """Forget an object that is gone."""
        identity = read_identity(raw)
        if kind is Kind.NODES:
            nodes = self._cache.nodes
            if nodes is not None and nodes.pop(identity.name, None) is not None:
                return self.unfinished()
            return frozenset()
        shelves: dict[Kind, _Droppable] = {
            Kind.COMPRESSION_JOBS: self._cache.jobs,
            Kind.PODS: self._cache.pods,
            Kind.EVENTS: self._cache.events,
            Kind.WORKLOADS: self._cache.workloads,
            **{kind: self._cache.children[child] for kind, child in CHILD_KINDS.items()},
        }
        self._cache.progress.pop(identity.uid, None)
        key = shelves[kind].drop(identity.uid)
        # Nothing waits for the end of an Event or of Kueue's object.
        return _if(kind not in (Kind.EVENTS, Kind.WORKLOADS), key)

    def wrote_job(self, raw: JsonValue) -> None:
        """Take in what a write to a CompressionJob returned."""
        job, identity = read_job_object(raw), read_identity(raw)
        self._cache.jobs.refresh(job.key, identity.uid, _version(identity), job)

    def created_child(self, kind: ChildKind, raw: JsonValue) -> Child | None:
        """Take in a child that a request returned; None where it is none of ours."""
        child, key = read_child(kind, raw), read_key(raw)
        if child is not None and key is not None:
            version = _version(read_identity(raw))
            self._cache.children[kind].put(key, child.uid, version, child)
        return child

    def unfinished(self) -> frozenset[Key]:
        """Every job that has not ended."""
        return frozenset(key for key, job in self._cache.jobs if job.status.completion_time is None)

    def _put_job(self, identity: Identity, raw: JsonValue) -> frozenset[Key]:
        job = read_job_object(raw)
        shelf = self._cache.jobs
        return _if(shelf.put(job.key, identity.uid, _version(identity), job), job.key)

    def _put_child(self, kind: ChildKind, identity: Identity, raw: JsonValue) -> frozenset[Key]:
        child, key = read_child(kind, raw), read_key(raw)
        if child is None or key is None:
            return frozenset()
        shelf = self._cache.children[kind]
        return _if(shelf.put(key, identity.uid, _version(identity), child), key)

    def _put_pod(self, identity: Identity, raw: JsonValue) -> frozenset[Key]:
        pod, key = read_pod(raw), read_key(raw)
        if pod is None or key is None:
            return frozenset()
        return _if(self._cache.pods.put(key, identity.uid, _version(identity), pod), key)

    def _put_event(self, identity: Identity, raw: JsonValue) -> frozenset[Key]:
        event = read_event(raw)
        key = _key_of_child(identity.namespace, event.job_name)
        if key is None:
            return frozenset()
        return _if(self._cache.events.put(key, identity.uid, _version(identity), event), key)

    def _put_workload(self, identity: Identity, raw: JsonValue) -> frozenset[Key]:
        workload = read_workload(raw)
        key = _key_of_child(identity.namespace, workload.owner_name) if workload else None
        if workload is None or key is None:
            return frozenset()
        shelf = self._cache.workloads
        return _if(shelf.put(key, identity.uid, _version(identity), workload), key)

    def _put_node(self, raw: JsonValue) -> frozenset[Key]:
        node, nodes = read_node(raw), self._cache.nodes
        if nodes is None or nodes.get(node.name) == node:
            return frozenset()
        nodes[node.name] = node
        return self.unfinished()


def _key_of_child(namespace: str, name: str) -> Key | None:
    found = _CHILD_NAME.match(name)
    return Key(namespace=namespace, name=found["job"]) if found else None


def _version(identity: Identity) -> int:
    if not identity.resource_version.isdigit():
        raise UnreadableError(f"resourceVersion {identity.resource_version!r} is no number")
    return int(identity.resource_version)


def _if(changed: bool, key: Key | None) -> frozenset[Key]:
    return frozenset({key}) if changed and key is not None else frozenset()
