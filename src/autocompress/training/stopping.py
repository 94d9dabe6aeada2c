"""A request to stop, noticed between two steps instead of in the middle of one."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequest:
    """Whether this process was asked to stop."""

    def __init__(self) -> None:
        self.requested = False

    def request(self) -> None:
        """Ask."""
        self.requested = True


@contextmanager
def stop_on_signal() -> Iterator[StopRequest]:
    """While entered, SIGTERM and SIGINT set the request instead of ending the process."""
    stop = StopRequest()

    def note(number: int, frame: FrameType | None) -> None:
        del number, frame
        stop.request()

    previous = {name: signal.signal(name, note) for name in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for name, handler in previous.items():
            signal.signal(name, handler)
