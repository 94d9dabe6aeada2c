"""Which job is visited when: each once at a time, soon after it changed, later after a failure."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from autocompress_operator.snapshot import Key

_FIRST_BACKOFF_SECONDS = 1.0
_LONGEST_BACKOFF_SECONDS = 300.0


@dataclass(kw_only=True)
class Schedule:
    """When which key is due. It knows no clock: times are given, in seconds from any zero."""

    _due: dict[Key, float] = field(default_factory=dict)
    _heap: list[tuple[float, int, Key]] = field(default_factory=list)
    _busy: dict[Key, float | None] = field(default_factory=dict)
    _failures: dict[Key, int] = field(default_factory=dict)
    _count: itertools.count[int] = field(default_factory=itertools.count)

    def add(self, key: Key, at: float) -> None:
        """Visit a key at a time, or earlier where that is planned already.

        A key that is being visited waits until that is over.
        """
        if key in self._busy:
            waiting = self._busy[key]
            self._busy[key] = at if waiting is None else min(waiting, at)
            return
        if key not in self._due or at < self._due[key]:
            self._due[key] = at
            heapq.heappush(self._heap, (at, next(self._count), key))

    def take(self, now: float) -> Key | None:
        """A key that is due and that nobody visits; it stays busy until ``done`` or ``failed``."""
        while self._heap and self._heap[0][0] <= now:
            at, _, key = heapq.heappop(self._heap)
            if self._due.get(key) == at:
                del self._due[key]
                self._busy[key] = None
                return key
        return None

    def done(self, key: Key, again_at: float | None = None) -> None:
        """The visit is over; come again when asked for, or at ``again_at``."""
        waiting = self._busy.pop(key)
        self._failures.pop(key, None)
        for at in (waiting, again_at):
            if at is not None:
                self.add(key, at)

    def failed(self, key: Key, now: float) -> float:
        """The visit failed; the next one waits longer each time. Returns for how long."""
        self._busy.pop(key)
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay = min(_FIRST_BACKOFF_SECONDS * 2.0 ** (failures - 1), _LONGEST_BACKOFF_SECONDS)
        self.add(key, now + delay)
        return delay

    def next_due(self) -> float | None:
        """When the next key is due."""
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def waiting(self, now: float) -> int:
        """How many keys are due."""
        return sum(at <= now for at in list(self._due.values()))

    def oldest(self, now: float) -> float:
        """For how long the key that is due longest has waited."""
        return now - min([*self._due.values(), now])


class Queue:
    """A schedule on a clock, with visitors that wait for it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._schedule = Schedule()
        self._changed = asyncio.Event()
        self._opened = asyncio.Event()

    def open(self) -> None:
        """Let visits begin: everything that is there has been seen once."""
        self._opened.set()

    def add(self, key: Key, after_seconds: float = 0.0) -> None:
        """Visit a key soon, or after a while."""
        self._schedule.add(key, self._clock() + after_seconds)
        self._changed.set()

    async def take(self) -> Key:
        """Wait for a key that is due."""
        await self._opened.wait()
        while (key := self._schedule.take(self._clock())) is None:
            self._changed.clear()
            due = self._schedule.next_due()
            wait = None if due is None else max(0.0, due - self._clock())
            try:
                await asyncio.wait_for(self._changed.wait(), wait)
            except TimeoutError:
                continue
        return key

    def done(self, key: Key, again_after_seconds: float | None = None) -> None:
        """The visit is over."""
        again = None if again_after_seconds is None else self._clock() + again_after_seconds
        self._schedule.done(key, again)
        self._changed.set()

    def failed(self, key: Key) -> float:
        """The visit failed; returns how long the next one waits."""
        delay = self._schedule.failed(key, self._clock())
        self._changed.set()
        return delay

    @property
    def depth(self) -> int:
        """How many keys wait for a visit now."""
        return self._schedule.waiting(self._clock())

    @property
    def oldest_seconds(self) -> float:
        """For how long the first of them has waited."""
        return self._schedule.oldest(self._clock())
