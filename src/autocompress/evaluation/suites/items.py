"""Benchmark items as values, and the seeded choice of some of them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Metric = Literal["acc", "acc_norm"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One multiple-choice question, answered by the choice that the model finds likeliest.

    Choice ``i`` is ``continuations[i]`` after ``contexts[i]``. All continuations after one context,
    or one continuation after several contexts, are written out.
    """

    key: str
    contexts: tuple[str, ...]
    continuations: tuple[str, ...]
    gold: int

    @property
    def chance(self) -> float:
        """What guessing scores."""
        return 1 / len(self.continuations)


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """One benchmark: its items and how they are scored.

    ``acc`` takes the choice with the highest log-likelihood, ``acc_norm`` the one with the highest
    per character of its text. ``delimiter`` stands between context and continuation.
    """

    name: str
    metric: Metric
    items: tuple[Item, ...]
    delimiter: str = " "


def choose(items: Sequence[Item], limit: int | None) -> tuple[Item, ...]:
    """At most ``limit`` items, by a hash of their keys.

    The same for every model; a smaller limit gives a beginning of what a larger one gives.
    """
    ordered = sorted(items, key=lambda item: hashlib.sha256(item.key.encode()).digest())
    return tuple(ordered[:limit])
