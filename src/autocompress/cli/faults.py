"""Whatever went wrong, as an error with a message, an exit code and a reason."""

from __future__ import annotations

import errno
import traceback
from pathlib import Path

from autocompress.contract.errors import AutocompressError, DiskFullError, StoppedError


class InternalError(AutocompressError):
    """A fault of this program; the message is the last line of its traceback."""


def as_known(error: BaseException) -> AutocompressError:
    """The error itself where it is one of ours, else what it means to a user."""
    if isinstance(error, AutocompressError):
        return error
    if isinstance(error, KeyboardInterrupt):
        return StoppedError("stopped; run the same command again to go on")
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        where = error.filename or "the disk that the work is done on"
        return DiskFullError(f"no space left: {where}; free some and run again to go on")
    return InternalError(
        f"{_last_line(error)}; this is a fault of autocompress, please report it with the traceback"
    )


def _last_line(error: BaseException) -> str:
    line = traceback.format_exception_only(error)[-1].strip()
    frames = traceback.extract_tb(error.__traceback__)
    return f"{line} ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else line
