"""What watches have shown so far: one shelf for each kind, and snapshots made of them.

kopf's own indices cannot serve here: an object that is deleted while a watch is interrupted would
stay in them for ever, and nothing can be taken out from outside. A shelf can be compared with a
list, and keeps only what decisions are made from.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from autocompress.api.v1alpha1.status import Progress
from autocompress_operator.attempts import cleanup_digest
from autocompress_operator.snapshot import (
    Child,
    ChildKind,
    JobEvent,
    JobObject,
    Key,
    Node,
    Pod,
    Snapshot,
    Workload,
)
from autocompress_operator.work import Work

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class _Kept(Generic[Value]):
    key: Key
    version: int
    value: Value


class Shelf(Generic[Value]):
    """Objects of one kind, each under the CompressionJob that it belongs to."""

    def __init__(self) -> None:
        self._by_uid: dict[str, _Kept[Value]] = {}
        self._by_key: dict[Key, dict[str, Value]] = {}

    def put(self, key: Key, uid: str, version: int, value: Value) -> bool:
        """Keep a version of an object unless a later one is there; whether that told anything."""
        kept = self._by_uid.get(uid)
        if kept is not None and kept.version > version:
            return False
        self._by_uid[uid] = _Kept(key, version, value)
        self._by_key.setdefault(key, {})[uid] = value
        return kept is None or kept.value != value

    def refresh(self, key: Key, uid: str, version: int, value: Value) -> None:
        """The same for what a write returned: what a watch saw go meanwhile does not come back."""
        if uid in self._by_uid:
            self.put(key, uid, version, value)

    def drop(self, uid: str) -> Key | None:
        """Forget an object; returns whose it was."""
        kept = self._by_uid.pop(uid, None)
        if kept is None:
            return None
        rest = self._by_key[kept.key]
        del rest[uid]
        if not rest:
            del self._by_key[kept.key]
        return kept.key

    def prune(self, listed: Collection[str], version: int) -> set[Key]:
        """Forget what a list of that version no longer has; returns whose it was."""
        gone = [
            uid
            for uid, kept in self._by_uid.items()
            if uid not in listed and kept.version <= version
        ]
        return {key for uid in gone if (key := self.drop(uid)) is not None}

    def of(self, key: Key) -> tuple[Value, ...]:
        """The objects of one CompressionJob."""
        return tuple(self._by_key.get(key, {}).values())

    def uids(self, key: Key) -> frozenset[str]:
        """Which objects of one CompressionJob are kept."""
        return frozenset(self._by_key.get(key, {}))

    def __iter__(self) -> Iterator[tuple[Key, Value]]:
        # A copy made in one step: metrics are collected in another thread.
        return iter([(kept.key, kept.value) for kept in list(self._by_uid.values())])

    def __len__(self) -> int:
        return len(self._by_uid)


def _shelves() -> dict[ChildKind, Shelf[Child]]:
    return {kind: Shelf() for kind in ChildKind}


@dataclass(kw_only=True)
class Cache:
    """All shelves. ``nodes`` by name, None where they may not be read; ``progress`` by pod uid."""

    jobs: Shelf[JobObject] = field(default_factory=Shelf)
    children: dict[ChildKind, Shelf[Child]] = field(default_factory=_shelves)
    pods: Shelf[Pod] = field(default_factory=Shelf)
    events: Shelf[JobEvent] = field(default_factory=Shelf)
    workloads: Shelf[Workload] = field(default_factory=Shelf)
    nodes: dict[str, Node] | None = None
    progress: dict[str, Progress] = field(default_factory=dict)
    installed: frozenset[ChildKind] = frozenset({ChildKind.JOB})

    def job(self, key: Key) -> JobObject | None:
        """The CompressionJob; of one that was deleted and made again, the later one."""
        found = self.jobs.of(key)
        return max(found, key=lambda job: int(job.resource_version), default=None)

    def snapshot(self, key: Key) -> Snapshot | None:
        """Everything about one CompressionJob; None where it is gone."""
        job = self.job(key)
        if job is None:
            return None
        pods = self.pods.of(key)
        return Snapshot(
            job=job,
            children=tuple(
                child
                for shelf in self.children.values()
                for child in shelf.of(key)
                if _belongs(child, job)
            ),
            pods=pods,
            events=self.events.of(key),
            workloads=self.workloads.of(key),
            nodes=None if self.nodes is None else tuple(self.nodes.values()),
            installed=self.installed,
            progress={p.uid: self.progress[p.uid] for p in pods if p.uid in self.progress},
        )


def _belongs(child: Child, job: JobObject) -> bool:
    """A job of the same name may have been there before."""
    if child.work is Work.CLEANUP:
        return child.input_digest == cleanup_digest(job)
    return child.owner_uid == job.uid
