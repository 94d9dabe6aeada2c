"""How a stage tells how far it is."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """A sink for progress. Implementations estimate the time left themselves."""

    def task(self, name: str, total: float) -> None:
        """Begin a task of ``total`` units; it ends the task before it."""

    def advance(self, amount: float = 1, note: str = "") -> None:
        """``amount`` more units of the current task are done."""

    def say(self, message: str) -> None:
        """One line for a person: what was reused, what was found."""


class Silent:
    """Drops everything; for library use and tests."""

    def task(self, name: str, total: float) -> None:
        """See ``Progress``."""

    def advance(self, amount: float = 1, note: str = "") -> None:
        """See ``Progress``."""

    def say(self, message: str) -> None:
        """See ``Progress``."""
