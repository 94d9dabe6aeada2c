"""Requests to stop: SIGTERM is taken as Ctrl-C is, and neither is lost."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

#: Long enough to be out of the callback that swallowed the first one.
_AGAIN_SECONDS = 0.1


def take_stops() -> None:
    """Raise ``KeyboardInterrupt`` in the main thread on SIGTERM as on SIGINT, again if it is lost.

    Python runs a signal's handler between any two instructions, those of ``__del__`` and weakref
    callbacks included, and there it reports and drops whatever is raised.
    """
    signal.signal(signal.SIGTERM, _stop)
    sys.unraisablehook = _raise_again


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    del number, frame
    raise KeyboardInterrupt


def _raise_again(unraisable: UnraisableHookArgs) -> None:
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
        return
    again = threading.Timer(_AGAIN_SECONDS, os.kill, (os.getpid(), signal.SIGTERM))
    again.daemon = True
    again.start()
