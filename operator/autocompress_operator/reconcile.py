"""One visit to one CompressionJob: look, decide, look closer where it matters, act, write down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Protocol

from autocompress.api.v1alpha1.status import CompressionJobStatus
from autocompress_operator.actions import Action, Create, Notice
from autocompress_operator.plan import Plan, plan
from autocompress_operator.settings import Settings
from autocompress_operator.snapshot import JobObject, Key, Refusal, Snapshot
from autocompress_operator.work import Work


class StaleError(Exception):
    """The job has changed since it was looked at."""


class Cluster(Protocol):
    """What a visit needs of a cluster. Every method may fail; a later visit does it again."""

    async def observe(self, key: Key) -> Snapshot | None:
        """What watches have shown, perhaps of a moment ago; None where the job is gone."""

    async def observe_now(self, key: Key) -> Snapshot | None:
        """The same with job and children as the API server has them now."""

    async def perform(self, action: Action, job: JobObject) -> Refusal | None:
        """Carry out one action; a refusal of what was to be created is an answer, not a failure.

        Raises:
            StaleError: the job is not the one that was looked at.
        """

    async def write_status(self, job: JobObject, status: CompressionJobStatus) -> None:
        """Write the whole status.

        Raises:
            StaleError: the job is not the one that was looked at.
        """

    async def post(self, job: JobObject, notice: Notice) -> None:
        """Post an Event."""


async def reconcile(
    cluster: Cluster, key: Key, clock: Callable[[], datetime], settings: Settings
) -> timedelta | None:
    """Visit a job; returns when to come again though nothing happens."""
    snapshot = await cluster.observe(key)
    if snapshot is None:
        return None
    now = clock()
    decided = plan(snapshot, now, settings)
    if decided.actions or _ends(snapshot, decided):
        # A cache may lag behind: what cannot be taken back is decided on what is there now.
        snapshot = await cluster.observe_now(key)
        if snapshot is None:
            return None
        decided = plan(snapshot, now, settings)
    refusals: dict[Work, Refusal] = {}
    for action in decided.actions:
        refusal = await cluster.perform(action, snapshot.job)
        if refusal is not None and isinstance(action, Create):
            refusals[action.work] = refusal
    if refusals:
        decided = plan(replace(snapshot, refusals=refusals), now, settings)
        for action in decided.actions:
            await cluster.perform(action, snapshot.job)
    if decided.status is not None:
        await cluster.write_status(snapshot.job, decided.status)
    for notice in decided.notices:
        await cluster.post(snapshot.job, notice)
    return decided.look_again_after


def _ends(snapshot: Snapshot, decided: Plan) -> bool:
    """Whether the job would be over from now on."""
    if decided.status is None:
        return False
    was_over = snapshot.job.status.completion_time is not None
    return decided.status.completion_time is not None and not was_over
