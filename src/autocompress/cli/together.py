"""Several processes of one stage on this machine: started, stopped and ended as one."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import FrameType

import psutil

from autocompress.contract.errors import ExitCode
from autocompress.domain.job import Job
from autocompress.stages.lineage import for_child
from autocompress.stages.seats import Node, Seat, read_node

_POLL_SECONDS = 0.1


def find_node(job: Job, environment: Mapping[str, str] = os.environ) -> Node | None:
    """The machine's place in a recovery: by the environment, else by its GPUs.

    No more processes take part than a step has sequences; ``None`` where one does it all.
    """
    from torch import cuda

    node = read_node(environment)
    if node is None and cuda.device_count() > 1:
        node = Node(
            index=0,
            nodes=1,
            processes=cuda.device_count(),
            address="127.0.0.1",
            port=_free_port(),
        )
    if node is None:
        return None
    settings = job.recovery
    return node.at_most(settings.step_tokens // settings.sequence_tokens)


def run_together(
    node: Node, command: Callable[[Seat, Path], list[str]], summary_file: Path | None
) -> int:
    """Run one child for each seat of ``node``; returns the exit code of the first that failed.

    ``command`` gives a child's command line with the file for its summary. That of the child that
    failed first, else of the first one, becomes ``summary_file``. One that fails takes the others
    with it, and a request to stop goes to all.
    """
    children: dict[Seat, subprocess.Popen[bytes]] = {}

    def forward(number: int, frame: FrameType | None) -> None:
        del number, frame
        _stop(children)

    previous = {name: signal.signal(name, forward) for name in (signal.SIGTERM, signal.SIGINT)}
    try:
        with tempfile.TemporaryDirectory() as scratch:
            files = {seat: Path(scratch) / f"{seat.rank}.json" for seat in node.seats()}
            for seat, file in files.items():
                environment = for_child({**_environment(node), **seat.environment()})
                children[seat] = subprocess.Popen(command(seat, file), env=environment)
            told = _wait(children) or next(iter(children))
            if summary_file is not None and files[told].is_file():
                # In place: a pod's file is a mount, which nothing can be renamed over.
                shutil.copyfile(files[told], summary_file)
    finally:
        for name, handler in previous.items():
            signal.signal(name, handler)
    code = children[told].returncode
    # A child killed by a signal reads as 128 + its number, as in a shell.
    return code if code >= 0 else 128 - code


def _wait(children: Mapping[Seat, subprocess.Popen[bytes]]) -> Seat | None:
    """Until all have ended; returns the one that failed first."""
    failed: Seat | None = None
    while None in [child.poll() for child in children.values()]:
        if failed is None:
            failed = _failed(children)
            # Those that were asked to stop do so together, after the same step.
            if failed is not None and children[failed].returncode != ExitCode.STOPPED:
                _stop(children)
        time.sleep(_POLL_SECONDS)
    return failed or _failed(children)


def _failed(children: Mapping[Seat, subprocess.Popen[bytes]]) -> Seat | None:
    return next((seat for seat, child in children.items() if child.returncode), None)


def _stop(children: Mapping[Seat, subprocess.Popen[bytes]]) -> None:
    for child in list(children.values()):
        with suppress(ProcessLookupError):
            child.terminate()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def _environment(node: Node) -> dict[str, str]:
    """Threads that do not starve each other, unless the user has said how many."""
    cores = psutil.cpu_count(logical=False) or 1
    threads = str(max(1, cores // node.processes))
    return {"OMP_NUM_THREADS": threads, **os.environ}
