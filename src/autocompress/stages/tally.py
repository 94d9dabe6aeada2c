"""What a process has done so far, counted where it is done and read by the stage runner."""

from __future__ import annotations

import threading


class Tally:
    """A count that threads may add to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0

    def add_one(self) -> None:
        """Count one more."""
        with self._lock:
            self._count += 1

    @property
    def count(self) -> int:
        """How many so far."""
        return self._count


#: Processes of the serving engine that this process has started.
ENGINE_STARTS = Tally()
