"""The termination message that a command leaves for the runner that started it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer

from autocompress.cli.faults import as_known
from autocompress.contract.termination import StageFault, StageReport, encode

SummaryFile = Annotated[
    Path | None,
    typer.Option(
        help="Where to leave the result or the fault as JSON (a pod's termination message)."
    ),
]


def leave_report(path: Path | None, report: StageReport) -> None:
    """Leave what a runner is told of a success."""
    if path is not None:
        # In place: a pod's file is a mount, which nothing can be renamed over.
        path.write_bytes(encode(report))


@contextmanager
def faults_left_in(path: Path | None, stage: str) -> Iterator[None]:
    """Leave what went wrong inside, whatever it is, and pass it on; a request to stop too."""
    try:
        yield
    except (KeyboardInterrupt, Exception) as error:
        known = as_known(error)
        if path is not None:
            # The fault itself matters more than that it cannot be written down.
            with suppress(OSError):
                path.write_bytes(
                    encode(StageFault(stage=stage, reason=known.reason, message=str(known)))
                )
        raise
