"""vLLM's OpenAI server for the duration of a measurement, or in the foreground for a user."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from autocompress.contract.errors import DataError, EngineError
from autocompress.domain.deployment import Target, Workload
from autocompress.engines.vllm.arguments import (
    check_target,
    completed,
    engine_arguments,
    environment,
    kv_cache_bytes,
)
from autocompress.engines.vllm.processes import (
    group_members,
    last_lines,
    peak_resident_bytes,
    python_command,
    python_path,
    reset_peak_resident,
    resident_bytes,
    start,
    stop,
)

MODEL_NAME = "model"

_START_SECONDS = 300.0
_LAUNCH = "autocompress.engines.vllm.launch"


class Server:
    """A server that was started; until ``wait_until_ready`` has returned it may still be loading,
    so that several can load side by side.
    """

    def __init__(self, process: subprocess.Popen[bytes], *, base_url: str, log_path: Path) -> None:
        self.base_url = base_url
        self.model_name = MODEL_NAME
        self._process = process
        self._log_path = log_path
        self._worker_pid = 0

    def wait_until_ready(self) -> None:
        """Return when it answers; its peak memory counts from then.

        Raises:
            EngineError: the engine did not start; its last lines are in the message.
        """
        _wait_until_ready(self._process, self.base_url, self._log_path)
        self._worker_pid = _worker_pid(self._process.pid)
        self.reset_peak()

    def peak_memory_bytes(self) -> int:
        """Peak resident memory in bytes of the process that executes the model.

        That is ``VmHWM`` of the engine's worker process since ``reset_peak`` (or since it was
        ready): weights in the layout the engine keeps them, KV cache, activations and buffers, and
        the Python and torch libraries that the process has touched. The HTTP and scheduler
        processes are not in it; neither are peaks of loading, which are over before the server is
        ready.

        Raises:
            EngineError: the worker has died.
        """
        peak = peak_resident_bytes(self._worker_pid)
        if not peak:
            raise EngineError("the engine's worker process has ended")
        return peak

    def reset_peak(self) -> None:
        """Measure the peak from now on; to be called after warm-up.

        Raises:
            EngineError: the worker has died.
        """
        try:
            reset_peak_resident(self._worker_pid)
        except OSError as error:
            raise EngineError(f"the engine's worker process has ended ({error})") from error


@contextmanager
def serve(
    model_dir: Path, *, target: Target, workload: Workload, log_path: Path
) -> Iterator[Server]:
    """Serve ``model_dir`` on a free loopback port, its KV cache exactly what the workload needs.

    It is started when the context is entered; wait for it with ``Server.wait_until_ready``.

    Raises:
        SpecError: the target is none that can be served here.
    """
    from autocompress.models.checkpoint import describe, read_config

    check_target(target)
    architecture, _ = describe(read_config(model_dir))
    kv_bytes = kv_cache_bytes(architecture, target, workload)
    port = _free_port()
    log_path.unlink(missing_ok=True)
    process = start(
        (
            *python_command(_LAUNCH),
            *("serve", str(model_dir), "--host", "127.0.0.1", "--port", str(port)),
            *("--served-model-name", MODEL_NAME),
            *engine_arguments(target, workload, kv_bytes),
        ),
        environment=python_path(environment(os.environ, log_level="INFO")),
        log_path=log_path,
    )
    try:
        yield Server(process, base_url=f"http://127.0.0.1:{port}", log_path=log_path)
    finally:
        stop(process)


def run_server(model_dir: Path, arguments: Sequence[str]) -> NoReturn:
    """Become vLLM's OpenAI server for ``model_dir`` with the user's own ``arguments`` (exec)."""
    from autocompress.models.checkpoint import describe, read_config

    try:
        architecture = describe(read_config(model_dir))[0]
    except DataError:  # a family that only the engine knows
        architecture = None
    command = (*python_command(_LAUNCH), "serve", str(model_dir))
    env = environment(os.environ, log_level=os.environ.get("VLLM_LOGGING_LEVEL", "INFO"))
    os.execve(command[0], [*command, *completed(arguments, architecture)], python_path(env))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_ready(process: subprocess.Popen[bytes], base_url: str, log_path: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        status = process.poll()
        if status is not None:
            raise EngineError(
                f"vLLM did not start (exit status {status}); its last lines:\n"
                f"{last_lines(log_path)}"
            )
        try:
            with urllib.request.urlopen(f"{base_url}/health", timeout=2) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise EngineError(
        f"vLLM was not ready after {_START_SECONDS:.0f} s; its last lines:\n{last_lines(log_path)}"
    )


def _worker_pid(group: int) -> int:
    """The process that executes the model: of the group, the one with the most memory in use.

    vLLM runs three (HTTP, scheduler, worker); the worker alone holds weights and KV cache, and it
    alone is named so where process titles can be set.
    """
    members = group_members(group)
    named = [pid for pid in members if "Worker" in _title(pid)]
    return max(named or members, key=resident_bytes)


def _title(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""
