"""Parent and compressed model served and driven with the same requests, in turn."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Protocol

from autocompress.contract.progress import Progress
from autocompress.domain.architecture import Architecture
from autocompress.domain.deployment import AcceleratorKind, Target, Workload
from autocompress.evaluation.load_test import Endpoint, LoadResult, drive_interleaved
from autocompress.evaluation.requests import RequestSet
from autocompress.evaluation.scorecard import Served

#: Slices of the request set, taken in turn by the two servers.
ROUNDS = 12

_NAMES = ("parent", "compressed")

#: When the load test begins no further round, so that a slow machine validates in bearable time.
MAX_LOAD_SECONDS = 60.0

#: What an engine's processes take on a CPU besides weights and KV cache: libraries, buffers,
#: and the second copy of the weights while they are repacked.
_OVERHEAD_BYTES = 3 << 30


class RunningServer(Protocol):
    """What is needed of a server: see ``engines.vllm.server.Server``."""

    base_url: str
    model_name: str

    def wait_until_ready(self) -> None:
        """Return when it answers."""

    def peak_memory_bytes(self) -> int:
        """Peak of the process that executes the model, since the last reset."""

    def reset_peak(self) -> None:
        """Measure the peak from now on."""


class Serve(Protocol):
    """Starts a server for the time of a ``with`` block: see ``engines.vllm.server.serve``."""

    def __call__(
        self, model_dir: Path, *, target: Target, workload: Workload, log_path: Path
    ) -> AbstractContextManager[RunningServer]:
        """Serve a model folder."""


def measure_both(
    folders: tuple[Path, Path],
    *,
    target: Target,
    workload: Workload,
    request_set: RequestSet,
    together: bool,
    serve: Serve,
    log_dir: Path,
    progress: Progress,
) -> tuple[Served, Served]:
    """Drive parent and compressed model (``folders``, in that order).

    With ``together`` both servers are up and take the requests in turn; otherwise one is driven
    after the other, and a machine that drifts between the two falsifies their ratio.

    Raises:
        EngineError: a server does not start, or fails under the load.
    """

    def start(stack: ExitStack, place: int) -> RunningServer:
        return stack.enter_context(
            serve(
                folders[place],
                target=target,
                workload=workload,
                log_path=log_dir / f"engine-{_NAMES[place]}.log",
            )
        )

    def ready(servers: tuple[RunningServer, ...]) -> tuple[RunningServer, ...]:
        progress.task("start the engine", len(servers))
        for server in servers:
            server.wait_until_ready()
            progress.advance()
        return servers

    def drive(servers: tuple[RunningServer, ...]) -> tuple[Served, ...]:
        results = drive_interleaved(
            [Endpoint(base_url=each.base_url, model_name=each.model_name) for each in servers],
            request_set=request_set,
            concurrency=workload.concurrency,
            rounds=ROUNDS,
            max_seconds=MAX_LOAD_SECONDS,
            progress=progress,
        )
        return tuple(_served(*each) for each in zip(results, servers, strict=True))

    if together:
        with ExitStack() as stack:
            # Most of a start is spent on loading libraries, by one thread.
            both = drive(ready((start(stack, 0), start(stack, 1))))
            return both[0], both[1]
    with ExitStack() as stack:
        (parent,) = drive(ready((start(stack, 0),)))
    with ExitStack() as stack:
        (compressed,) = drive(ready((start(stack, 1),)))
    return parent, compressed


def _served(load: LoadResult, server: RunningServer) -> Served:
    return Served(load=load, peak_memory_bytes=server.peak_memory_bytes())


def fit_together(
    models: tuple[Architecture, Architecture],
    target: Target,
    workload: Workload,
    *,
    available_bytes: Callable[[], int],
) -> bool:
    """Whether both servers can be up at once.

    Not on a GPU: an engine there takes what memory it finds.
    """
    if target.accelerator.kind is AcceleratorKind.GPU:
        return False
    element = target.precision.bytes_per_element
    cached_tokens = workload.max_sequences * workload.context_tokens
    needed = sum(
        model.weight_bytes(element)
        + cached_tokens * model.kv_bytes_per_token(element)
        + _OVERHEAD_BYTES
        for model in models
    )
    return needed <= available_bytes()


def available_memory_bytes() -> int:
    """Memory that new processes can have, as the Linux kernel estimates it."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0
