"""What one model scored, answer by answer, and two models compared. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from autocompress.contract.errors import DataError
from autocompress.domain.records import Quality, TaskScore, TextScore


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskResult:
    """One benchmark: which items were answered rightly, in the order of the items."""

    name: str
    metric: str
    chance: float
    correct: tuple[bool, ...]

    @property
    def accuracy(self) -> float:
        """The share of right answers."""
        return fmean(self.correct)

    @property
    def standard_error(self) -> float:
        """Sample standard deviation over the square root of the count, as in lm-eval."""
        return _standard_error([float(each) for each in self.correct])


@dataclass(frozen=True, kw_only=True, slots=True)
class TextResult:
    """Bits per byte on one kind of text."""

    name: str
    bytes: int
    tokens: int
    bits_per_byte: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelQuality:
    """Everything that one model scored on one set of questions."""

    suite: str
    tasks: tuple[TaskResult, ...]
    texts: tuple[TextResult, ...]


def compare(
    parent: ModelQuality,
    pruned: ModelQuality,
    compressed: ModelQuality,
    *,
    min_retention_percent: int,
) -> Quality:
    """Set the three beside each other; all must have answered the same questions.

    Retention is the ratio of the mean accuracies, R = mean(compressed) / mean(parent). Its standard
    error is that of a ratio of paired means (delta method): with d = compressed - R x parent per
    item, the variance of R is the sum over T tasks of var(d) / items, over (T x mean(parent))^2.
    Pairing matters: the two models mostly fail on the same items.

    Raises:
        DataError: the parent answers nothing rightly, so that nothing can be retained.
    """
    tasks = list(zip(parent.tasks, pruned.tasks, compressed.tasks, strict=True))
    parent_mean = fmean(task.accuracy for task in parent.tasks)
    compressed_mean = fmean(task.accuracy for task in compressed.tasks)
    if parent_mean == 0:
        raise DataError(
            f"the parent answers no item of suite {parent.suite} rightly, so that retention has no "
            "meaning; choose another spec.quality.suite or a larger limit"
        )
    ratio = compressed_mean / parent_mean
    variance = sum(
        _standard_error(
            [float(c) - ratio * float(p) for p, c in zip(of.correct, new.correct, strict=True)]
        )
        ** 2
        for of, _, new in tasks
    )
    retention = 100 * ratio
    return Quality(
        suite=parent.suite,
        tasks=tuple(
            TaskScore(
                name=of.name,
                metric=of.metric,
                items=len(of.correct),
                chance=of.chance,
                parent=of.accuracy,
                parent_error=of.standard_error,
                pruned=cut.accuracy,
                pruned_error=cut.standard_error,
                compressed=new.accuracy,
                compressed_error=new.standard_error,
            )
            for of, cut, new in tasks
        ),
        texts=tuple(
            TextScore(
                name=of.name,
                bytes=of.bytes,
                tokens=of.tokens,
                parent=of.bits_per_byte,
                pruned=cut.bits_per_byte,
                compressed=new.bits_per_byte,
            )
            for of, cut, new in zip(parent.texts, pruned.texts, compressed.texts, strict=True)
        ),
        parent_mean=parent_mean,
        pruned_mean=fmean(task.accuracy for task in pruned.tasks),
        compressed_mean=compressed_mean,
        retention_percent=retention,
        retention_error_percent=100 * math.sqrt(variance) / (len(tasks) * parent_mean),
        min_retention_percent=min_retention_percent,
        met=retention >= min_retention_percent,
    )


def _standard_error(values: Sequence[float]) -> float:
    if len(values) < 2:
        return 0.0
    mean = fmean(values)
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return math.sqrt(variance / len(values))
