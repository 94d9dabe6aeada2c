"""What a plan asks of the API server; each can be done again without harm."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from autocompress_operator.jobs import Manifests
from autocompress_operator.snapshot import ChildKind
from autocompress_operator.work import Work


@dataclass(frozen=True, kw_only=True, slots=True)
class ChildRef:
    """One child, and no later one of its name."""

    kind: ChildKind
    name: str
    uid: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Create:
    """Create an attempt's objects, or find that they are there."""

    work: Work
    attempt: int
    name: str
    input_digest: str
    manifests: Manifests


@dataclass(frozen=True, kw_only=True, slots=True)
class Delete:
    """Delete a child and its pods; it is gone when they are."""

    child: ChildRef


@dataclass(frozen=True, kw_only=True, slots=True)
class Suspend:
    """Stop a child's pods and keep the child."""

    child: ChildRef


@dataclass(frozen=True, kw_only=True, slots=True)
class Resume:
    """Let a suspended child go on."""

    child: ChildRef


@dataclass(frozen=True, kw_only=True, slots=True)
class AddFinalizer:
    """Be asked before the job goes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DropFinalizer:
    """Let the job go."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DeleteJob:
    """Delete the CompressionJob: its time to live is over."""


Action = Create | Delete | Suspend | Resume | AddFinalizer | DropFinalizer | DeleteJob


class Severity(StrEnum):
    """The type of an Event."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, kw_only=True, slots=True)
class Notice:
    """An Event to post: a transition, told once; nothing relies on it."""

    severity: Severity
    reason: str
    action: str
    message: str
