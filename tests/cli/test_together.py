"""The processes of one machine end as one."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from autocompress.cli.together import find_node, run_together
from autocompress.stages.seats import Node, Seat

NODE = Node(index=0, nodes=1, processes=3, address="127.0.0.1", port=1)
WAIT = "import time; time.sleep(60)"
SAY = "import os, sys; open(sys.argv[1], 'w').write(os.environ['RANK'] + os.environ['WORLD_SIZE'])"


def run(programs: dict[int, str], summary: Path) -> int:
    def command(seat: Seat, file: Path) -> list[str]:
        return [sys.executable, "-c", programs.get(seat.rank, programs[0]), str(file)]

    return run_together(NODE, command, summary)


def test_all_have_ended_well_and_the_first_one_tells(tmp_path):
    assert run({0: SAY}, tmp_path / "left") == 0
    assert (tmp_path / "left").read_text() == "03"


def test_the_first_that_fails_decides_and_takes_the_others_with_it(tmp_path):
    began = time.monotonic()
    programs = {0: WAIT, 1: f"{SAY}; sys.exit(74)"}
    assert run(programs, tmp_path / "left") == 74
    assert (tmp_path / "left").read_text() == "13"
    assert time.monotonic() - began < 50


def test_one_that_is_killed_reads_as_in_a_shell(tmp_path):
    kill = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    assert run({0: WAIT, 2: kill}, tmp_path / "left") == 137
    assert not (tmp_path / "left").exists()


def test_a_request_to_stop_goes_to_all(tmp_path):
    stopping = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))\n"
        f"open('{tmp_path}/' + sys.argv[1].rsplit('/', 1)[1], 'w').close()\n"
        "time.sleep(60)"
    )

    def ask() -> None:
        while len(list(tmp_path.glob("*.json"))) < 3:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=ask).start()
    assert run({0: stopping}, tmp_path / "left") == 143


def test_a_machine_uses_its_gpus_as_far_as_a_step_has_sequences(job, monkeypatch):
    torch = pytest.importorskip("torch")
    assert find_node(job, {}) is None
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    node = find_node(job, {})
    sequences = job.recovery.step_tokens // job.recovery.sequence_tokens
    assert (node.nodes, node.processes) == (1, sequences)
    assert (node.address, sequences) == ("127.0.0.1", 2)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert find_node(job, {}) is None
