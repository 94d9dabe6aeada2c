"""Run a whole job on this machine: the stages in order, each in a child process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from autocompress.contract.errors import ExitCode
from autocompress.contract.stage import Manifest, Stage, Summary, next_stage
from autocompress.domain.job import Job
from autocompress.stages.execute import finished_stages
from autocompress.stages.lineage import for_child
from autocompress.store.protocol import Store

#: Infrastructure faults are tried again; a wrong input or an infeasible budget never is.
RETRIED = frozenset({ExitCode.UNAVAILABLE, ExitCode.TRY_LATER})
TRIES = 3


@dataclass(frozen=True, kw_only=True)
class LocalRun:
    """How the run ended: every finished stage, and the exit code of the first that failed."""

    finished: Mapping[Stage, Manifest]
    exit_code: int


def run_stages(
    job: Job,
    store: Store,
    *,
    source_revision: str,
    command: Callable[[Stage], list[str]],
    recognised: Callable[[Stage, Manifest], None],
) -> LocalRun:
    """Run what is not done yet.

    ``command`` gives the child's command line; ``recognised`` is told of every stage whose
    result was there before. A child is asked to stop when this process is.
    """
    before = finished_stages(job, store, source_revision=source_revision)
    for stage, manifest in before.items():
        recognised(stage, manifest)
    finished: Mapping[Stage, Manifest] = before
    tries = 0
    while (stage_or_none := next_stage(_summaries(finished))) is not None:
        code = _run_child(command(stage_or_none))
        # Read again even after a fault: a damaged result that the child found is no longer there.
        finished = finished_stages(job, store, source_revision=source_revision)
        if stage_or_none in finished:
            tries = 0
            continue
        tries += 1
        if code not in RETRIED or tries == TRIES:
            # A child that ended well without a result in the store is a fault too.
            return LocalRun(finished=finished, exit_code=code or ExitCode.ENGINE_FAILED)
    return LocalRun(finished=finished, exit_code=ExitCode.DONE)


def stage_command(stage: Stage, job_file: Path, options: list[str]) -> list[str]:
    """The command line of one stage, run by the interpreter that runs now."""
    return [sys.executable, "-m", "autocompress", "stage", stage.value, str(job_file), *options]


def _summaries(finished: Mapping[Stage, Manifest]) -> dict[Stage, Summary]:
    return {stage: manifest.summary for stage, manifest in finished.items() if manifest.summary}


def _run_child(command: list[str]) -> int:
    # Killed without a chance to forward it, this process takes its stage with it.
    child = subprocess.Popen(command, env=for_child(os.environ))

    def forward(number: int, frame: FrameType | None) -> None:
        del number, frame
        child.terminate()

    previous = {name: signal.signal(name, forward) for name in (signal.SIGTERM, signal.SIGINT)}
    try:
        code = child.wait()
    finally:
        for name, handler in previous.items():
            signal.signal(name, handler)
    # A child killed by a signal reads as 128 + its number, as in a shell.
    return code if code >= 0 else 128 - code
