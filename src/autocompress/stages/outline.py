"""How far a stage is as a whole, from the tasks that it names one after the other.

A stage does not know what is ahead; the outline does: its tasks in order, each with its usual share
of the time. What is skipped counts as done, what is unknown as nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from autocompress.contract.stage import Stage


@dataclass(frozen=True, kw_only=True, slots=True)
class Expected:
    """A task by the name that its stage gives it; ``weight`` is relative, within the stage."""

    task: str
    weight: float


def _expected(**weights: float) -> tuple[Expected, ...]:
    return tuple(
        Expected(task=name.replace("_", " "), weight=weight) for name, weight in weights.items()
    )


#: Weights are seconds of SmolLM2-135M on two CPU cores, as its example job ran.
OUTLINE: Mapping[Stage, tuple[Expected, ...]] = {
    Stage.PROFILE: _expected(
        fetching_the_parent=10,
        load_the_engine=15,
        time_short_models=260,
        start_the_engine_with_the_parent=50,
        load_test=70,
    ),
    Stage.SEARCH: _expected(
        fetching_the_parent=10,
        ranking_by_activations=55,
        ranking_blocks=35,
        searching=440,
        judging_finalists=60,
    ),
    Stage.RECOVER: _expected(fetching_the_parent=10, distilling=470),
    Stage.VALIDATE: _expected(
        fetching_the_parent=10,
        start_the_engine=60,
        load_test=80,
        quality_of_the_parent=170,
        quality_of_the_pruned_model=110,
        quality_of_the_compressed_model=110,
    ),
}


class Course:
    """Follows one run of a stage; times in seconds by ``clock``."""

    def __init__(self, stage: Stage, clock: Callable[[], float]) -> None:
        self._outline, self._clock = OUTLINE[stage], clock
        self._place: int | None = None
        self._name, self._total, self._done = "", 1.0, 0.0
        self._began = clock()
        self._base: tuple[float, float] | None = None
        self._share = 0.0
        self._seconds_per_weight: float | None = None

    @property
    def task(self) -> str:
        """The name of the current task; empty before the first."""
        return self._name

    def begin(self, name: str, total: float) -> None:
        """A task begins."""
        ended = self._expected()
        if ended is not None and self._done:
            self._seconds_per_weight = (self._clock() - self._began) / ended.weight
        self._begin_task(name, total)
        for place, expected in enumerate(self._outline):
            if expected.task == name and place >= (self._place or 0):
                self._place = place
        self._share = max(self._share, self._reached())

    def advance(self, amount: float) -> None:
        """Units of the current task are done."""
        self._done += amount
        if self._base is None:
            # What is resumed is done at once; what is timed comes after it.
            self._base = (self._clock(), self._done)
        self._share = max(self._share, self._reached())

    def task_share(self) -> float:
        """Of the current task, from 0 to 1."""
        return min(1.0, self._done / self._total) if self._total > 0 else 1.0

    def share(self) -> float:
        """Of the whole stage, from 0 to 1; never less than before."""
        return self._share

    def remaining_seconds(self) -> float | None:
        """To the end of the stage; ``None`` while nothing can be told."""
        expected = self._expected()
        rest = self._task_seconds() * (1 - self.task_share()) if self._has_rate() else None
        if expected is None:
            return None
        per_weight = self._seconds_per_weight
        if rest is not None:
            per_weight = self._task_seconds() / expected.weight
        elif per_weight is not None:
            rest = per_weight * expected.weight * (1 - self.task_share())
        if rest is None or per_weight is None:
            return None
        ahead = self._outline[(self._place or 0) + 1 :]
        return rest + per_weight * sum(task.weight for task in ahead)

    def _begin_task(self, name: str, total: float) -> None:
        self._name, self._total, self._done = name, total, 0.0
        self._began, self._base = self._clock(), None

    def _expected(self) -> Expected | None:
        """What the outline says of the current task, if it names it."""
        if self._place is None or self._outline[self._place].task != self._name:
            return None
        return self._outline[self._place]

    def _reached(self) -> float:
        if self._place is None:
            return 0.0
        expected = self._expected()
        passed = sum(task.weight for task in self._outline[: self._place])
        current = self._outline[self._place].weight
        whole = sum(task.weight for task in self._outline)
        return (passed + current * (self.task_share() if expected else 1.0)) / whole

    def _has_rate(self) -> bool:
        return self._base is not None and self._done > self._base[1]

    def _task_seconds(self) -> float:
        """For the whole current task, at the rate since its first units."""
        assert self._base is not None
        began, done = self._base
        return (self._clock() - began) * self._total / (self._done - done)
