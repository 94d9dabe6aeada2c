"""A process dies with the one that started it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import job_samples

CHILD = """
import os, signal, sys, time
from autocompress.stages.lineage import end_with_parent
{before}
end_with_parent(os.environ, signal.SIGTERM)
print(os.getpid(), "AUTOCOMPRESS_ENDS_WITH" in os.environ, flush=True)
time.sleep(60)
"""
PARENT = """
import os, subprocess, sys, time
from autocompress.stages.lineage import for_child
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], env=for_child(os.environ))
{then}
"""


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_for_end(pid):
    deadline = time.monotonic() + 60
    while is_alive(pid):
        assert time.monotonic() < deadline, f"process {pid} lives on"
        time.sleep(0.05)


def parent(child, then):
    command = [sys.executable, "-c", PARENT.format(then=then), child]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_a_child_ends_with_a_parent_that_is_killed():
    started = parent(CHILD.format(before=""), "time.sleep(60)")
    pid, told = started.stdout.readline().split()
    assert told == "False"
    assert is_alive(int(pid))
    started.kill()
    started.wait()
    wait_for_end(int(pid))


def test_a_child_whose_parent_died_before_it_asked_ends_too():
    started = parent(CHILD.format(before="print(os.getpid(), flush=True); time.sleep(1)"), "")
    pid = int(started.stdout.readline())
    started.wait()
    assert started.stdout.read() == ""  # ended before it said anything
    wait_for_end(pid)


def children(pid):
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.slow
def test_a_run_that_is_killed_takes_its_stage_with_it(tmp_path):
    job = tmp_path / "job.yaml"
    job.write_text(job_samples.SMALLEST)
    run = subprocess.Popen(
        [sys.executable, "-m", "autocompress", "run", str(job)],
        cwd=tmp_path,
        env={**os.environ, "AUTOCOMPRESS_CACHE": str(tmp_path / "cache")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 120
    while not (stages := children(run.pid)):
        assert run.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(2)  # into its work
    run.send_signal(signal.SIGKILL)
    run.wait()
    for stage in stages:
        wait_for_end(stage)
