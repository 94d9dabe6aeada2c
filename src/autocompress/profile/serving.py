"""Measures the parent as it would be deployed: vLLM's server under the job's workload."""

from __future__ import annotations

from pathlib import Path

from autocompress.contract.progress import Progress
from autocompress.domain.architecture import Architecture
from autocompress.domain.costs import MeasuredCosts
from autocompress.domain.deployment import Target, Workload
from autocompress.engines.vllm.server import serve
from autocompress.evaluation.load_test import drive

#: Requests of the load test: within these bounds, and by time in between.
LEAST_REQUESTS = 6
MOST_REQUESTS = 32
_LOAD_TEST_SECONDS = 40.0
_SEED = 7


def measure_parent(
    folder: Path,
    architecture: Architecture,
    *,
    target: Target,
    workload: Workload,
    request_seconds: float,
    log_path: Path,
    progress: Progress,
) -> MeasuredCosts:
    """Serve the parent and send it the workload; ``request_seconds`` is about what one request
    takes.

    Raises:
        EngineError: the server does not start, or fails under the load.
        DataError: the workload's request-set file is wrong.
    """
    progress.task("start the engine with the parent", 1)
    with serve(folder, target=target, workload=workload, log_path=log_path) as server:
        server.wait_until_ready()
        progress.advance()
        result = drive(
            server.base_url,
            server.model_name,
            workload=workload,
            vocabulary_size=architecture.vocab_size,
            requests=requests_within(_LOAD_TEST_SECONDS, request_seconds, workload.concurrency),
            warmup=workload.concurrency,
            seed=_SEED,
            progress=progress,
        )
        return MeasuredCosts(
            time_to_first_token=result.time_to_first_token,
            time_per_output_token=result.time_per_output_token,
            end_to_end_latency=result.end_to_end_latency,
            output_tokens_per_second=result.output_tokens_per_second,
            memory_bytes=server.peak_memory_bytes(),
        )


def requests_within(seconds: float, request_seconds: float, concurrency: int) -> int:
    """How many requests to send: whole waves of ``concurrency``, two at least."""
    wanted = min(max(int(seconds / request_seconds * concurrency), LEAST_REQUESTS), MOST_REQUESTS)
    waves = max(2, -(-wanted // concurrency))
    return waves * concurrency
