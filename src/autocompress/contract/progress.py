"""How a stage tells how far it is."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol


class Figure(StrEnum):
    """A figure that changes while a stage works, in its base unit."""

    TRAINING_LOSS = "training_loss"
    LEARNING_RATE = "learning_rate"
    TRAINED_TOKENS = "trained_tokens"


class Progress(Protocol):
    """A sink for progress. Implementations estimate the time left themselves."""

    def task(self, name: str, total: float) -> None:
        """Begin a task of ``total`` units; it ends the task before it."""

    def advance(self, amount: float = 1, note: str = "") -> None:
        """``amount`` more units of the current task are done; ``note`` is for a person."""

    def measure(self, figure: Figure, value: float) -> None:
        """A figure has this value now."""

    def say(self, message: str) -> None:
        """One line for a person: what was reused, what was found."""


class Silent:
    """Drops everything; for library use and tests."""

    def task(self, name: str, total: float) -> None:
        """See ``Progress``."""

    def advance(self, amount: float = 1, note: str = "") -> None:
        """See ``Progress``."""

    def measure(self, figure: Figure, value: float) -> None:
        """See ``Progress``."""

    def say(self, message: str) -> None:
        """See ``Progress``."""


class Both:
    """Passes everything on to two sinks."""

    def __init__(self, first: Progress, second: Progress) -> None:
        self._sinks = (first, second)

    def task(self, name: str, total: float) -> None:
        """See ``Progress``."""
        for sink in self._sinks:
            sink.task(name, total)

    def advance(self, amount: float = 1, note: str = "") -> None:
        """See ``Progress``."""
        for sink in self._sinks:
            sink.advance(amount, note)

    def measure(self, figure: Figure, value: float) -> None:
        """See ``Progress``."""
        for sink in self._sinks:
            sink.measure(figure, value)

    def say(self, message: str) -> None:
        """See ``Progress``."""
        for sink in self._sinks:
            sink.say(message)
