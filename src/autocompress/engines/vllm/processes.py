"""Engine processes: started as a group of their own, watched in ``/proc``, and stopped for good."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import autocompress
from autocompress.stages.lineage import for_child
from autocompress.stages.tally import ENGINE_STARTS

#: How many of the engine's last lines an error shows.
LAST_LINES = 25

_PACKAGE_ROOT = Path(autocompress.__file__).parents[1]


def python_command(module: str) -> tuple[str, ...]:
    """The command that runs ``module`` with this interpreter."""
    return (sys.executable, "-m", module)


def python_path(environment: Mapping[str, str]) -> dict[str, str]:
    """``environment`` with the folder of this package on the module path."""
    parts = [str(_PACKAGE_ROOT), *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    return {**environment, "PYTHONPATH": os.pathsep.join(dict.fromkeys(parts))}


def start(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    log_path: Path,
    stdin: int = subprocess.DEVNULL,
    stdout: int | None = None,
) -> subprocess.Popen[bytes]:
    """Start ``command`` as the leader of a new session, its output (but a given ``stdout``) in
    ``log_path``; one of ours ends with this process.
    """
    log_path.parent.mkdir(parents=True, exist_ok=True)
    with log_path.open("ab") as log:
        process = subprocess.Popen(
            command,
            env=for_child(environment),
            stdin=stdin,
            stdout=log if stdout is None else stdout,
            stderr=log,
            start_new_session=True,
            # A reader that waits with select must not find its next line in a hidden buffer.
            bufsize=0,
        )
    ENGINE_STARTS.add_one()
    return process


def stop(process: subprocess.Popen[bytes], *, patience_seconds: float = 15.0) -> None:
    """Ask the whole group to end, then end what is left of it; returns when it is gone."""
    members = group_members(process.pid)
    _signal_group(process.pid, signal.SIGTERM)
    deadline = time.monotonic() + patience_seconds
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=patience_seconds)
    while (left := [p for p in members if _is_member(p, process.pid)]) and (
        time.monotonic() < deadline
    ):
        time.sleep(0.05)
    if left or process.poll() is None:
        _signal_group(process.pid, signal.SIGKILL)
    process.wait()


def group_members(group: int) -> tuple[int, ...]:
    """The live processes of a process group (Linux)."""
    return tuple(
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and _is_member(int(entry.name), group)
    )


def last_lines(log_path: Path, count: int = LAST_LINES) -> str:
    """The end of a log, for an error message."""
    try:
        lines = log_path.read_text(errors="replace").splitlines()
    except OSError:
        return "(no output)"
    return "\n".join(f"  | {line}" for line in lines[-count:]) or "(no output)"


def peak_resident_bytes(pid: int) -> int:
    """Peak resident memory (``VmHWM``) since the start or the last reset; 0 for a dead process."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    for line in text.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def resident_bytes(pid: int) -> int:
    """Resident memory now; 0 for a dead process."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGESIZE")


def reset_peak_resident(pid: int) -> None:
    """Let ``peak_resident_bytes`` start anew from what is resident now (Linux, ``clear_refs``
    5).
    """
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def _is_member(pid: int, group: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    # After the name in parentheses: state, parent, process group.
    fields = stat.rpartition(")")[2].split()
    return fields[0] != "Z" and int(fields[2]) == group


def _signal_group(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, number)
