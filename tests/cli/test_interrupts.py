"""A request to stop is kept wherever it arrives."""

import signal
import subprocess
import sys

import pytest

ENDS = """
import os, signal, time, weakref
from autocompress.cli.interrupts import take_stops

def ask(*_):
    os.kill(os.getpid(), signal.{name})
    time.sleep(0)  # where the signal's handler runs

class Held:
    pass

class Finalized:
    __del__ = ask

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
take_stops()
{where}
for _ in range(600):
    time.sleep(0.1)
"""
PLACES = {
    "in a finalizer": "held = Finalized(); del held",
    "in a weakref callback": "held = Held(); kept = weakref.ref(held, ask); del held",
    "in plain code": "ask()",
}


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
@pytest.mark.parametrize("where", PLACES.values(), ids=PLACES)
def test_a_request_to_stop_ends_the_program(name, where):
    ended = subprocess.run(
        [sys.executable, "-c", ENDS.format(name=name, where=where)],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert ended.returncode == -signal.SIGINT  # KeyboardInterrupt reached the top
    assert ended.stderr.strip().endswith("KeyboardInterrupt")


def test_other_faults_in_finalizers_are_still_reported():
    program = (
        "from autocompress.cli.interrupts import take_stops\n"
        "class Faulty:\n"
        "    def __del__(self):\n"
        "        raise ValueError('of the finalizer')\n"
        "take_stops()\n"
        "held = Faulty(); del held\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=False
    )
    assert ended.returncode == 0
    assert "ValueError: of the finalizer" in ended.stderr
