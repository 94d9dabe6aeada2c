"""Where progress is shown: bars on a terminal, plain lines elsewhere, JSON lines for machines."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from autocompress.contract.progress import Figure, Progress


class TerminalProgress:
    """A live bar with the time left."""

    def __init__(self, stage: str, console: Console) -> None:
        self._stage = stage
        self._bars = Bars(
            TextColumn("[bold]{task.fields[stage]:>8}[/]  {task.description:<34}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeRemainingColumn(compact=True, elapsed_when_finished=True),
            TextColumn("[dim]{task.fields[note]}"),
            console=console,
        )
        self._task: TaskID | None = None

    def task(self, name: str, total: float) -> None:
        """See ``Progress``."""
        if self._task is None:
            self._bars.start()
        else:
            self._fill()
        self._task = self._bars.add_task(name, total=total, stage=self._stage, note="")

    def advance(self, amount: float = 1, note: str = "") -> None:
        """See ``Progress``."""
        if self._task is not None:
            self._bars.update(self._task, advance=amount, note=note)

    def measure(self, figure: Figure, value: float) -> None:
        """Figures are for programs; a person reads the notes."""

    def say(self, message: str) -> None:
        """See ``Progress``."""
        self._bars.console.print(f"[bold]{self._stage:>8}[/]  {message}", highlight=False)

    def close(self) -> None:
        """Leave the bars as they stand."""
        self._fill()
        self._bars.stop()

    def _fill(self) -> None:
        # A task may have been estimated too high; an ended one is full.
        for task in self._bars.tasks:
            if task.id == self._task:
                self._bars.update(task.id, total=task.completed, note="")


class PlainProgress:
    """Lines for logs: the start of each task, then one line at most every ``every_seconds``."""

    def __init__(
        self,
        stage: str,
        stream: TextIO,
        *,
        every_seconds: float = 10,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stage, self._stream = stage, stream
        self._every_seconds, self._clock = every_seconds, clock
        self._name, self._total, self._done = "", 0.0, 0.0
        self._started = self._last = clock()

    def task(self, name: str, total: float) -> None:
        """See ``Progress``."""
        self._name, self._total, self._done = name, total, 0.0
        self._started = self._last = self._clock()
        self._write(name)

    def advance(self, amount: float = 1, note: str = "") -> None:
        """See ``Progress``."""
        self._done += amount
        now = self._clock()
        if now - self._last < self._every_seconds and self._done < self._total:
            return
        self._last = now
        share = min(self._done / self._total, 1.0) if self._total else 1.0
        left = (now - self._started) * (1 - share) / share if share else 0.0
        more = f", {left:.0f} s left" if share < 1 else f", {now - self._started:.0f} s"
        self._write(f"{self._name}: {share:.0%}{more}{'; ' + note if note else ''}")

    def measure(self, figure: Figure, value: float) -> None:
        """Figures are for programs; a person reads the notes."""

    def say(self, message: str) -> None:
        """See ``Progress``."""
        self._write(message)

    def close(self) -> None:
        """Nothing is held."""

    def _write(self, line: str) -> None:
        self._stream.write(f"[{self._stage}] {line}\n")
        self._stream.flush()


class JsonProgress:
    """One JSON object a line, for programs that watch."""

    def __init__(self, stage: str, stream: TextIO) -> None:
        self._stage, self._stream = stage, stream
        self._name, self._total, self._done = "", 0.0, 0.0

    def task(self, name: str, total: float) -> None:
        """See ``Progress``."""
        self._name, self._total, self._done = name, total, 0.0
        self._write({"task": name, "done": 0, "total": total})

    def advance(self, amount: float = 1, note: str = "") -> None:
        """See ``Progress``."""
        self._done += amount
        self._write({"task": self._name, "done": self._done, "total": self._total, "note": note})

    def measure(self, figure: Figure, value: float) -> None:
        """See ``Progress``."""
        self._write({"figure": figure.value, "value": value})

    def say(self, message: str) -> None:
        """See ``Progress``."""
        self._write({"message": message})

    def close(self) -> None:
        """Nothing is held."""

    def _write(self, event: dict[str, object]) -> None:
        self._stream.write(json.dumps({"stage": self._stage, **event}) + "\n")
        self._stream.flush()


Display = TerminalProgress | PlainProgress | JsonProgress


def open_display(stage: str, *, as_json: bool) -> Display:
    """The display that fits standard error."""
    if as_json:
        return JsonProgress(stage, sys.stderr)
    if sys.stderr.isatty():
        return TerminalProgress(stage, Console(stderr=True))
    return PlainProgress(stage, sys.stderr)


def _conforms(display: Display) -> Progress:
    return display
