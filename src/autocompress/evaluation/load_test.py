"""Drives a workload against OpenAI-compatible servers and tells how long the answers took.

A closed loop: ``concurrency`` clients, each sending its next request when its last one is answered.
Time per output token is one value per request, (last token - first token) / (tokens - 1), and its
percentiles are over requests, as in vLLM's own serving benchmark.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import aiohttp
import numpy as np

from autocompress.contract.errors import EngineError
from autocompress.contract.progress import Progress
from autocompress.domain.costs import Percentiles
from autocompress.domain.deployment import Workload
from autocompress.evaluation.requests import Request, RequestSet, request_set

#: The share of tokens by which a run may differ from what was asked before it is rejected.
LENGTH_TOLERANCE = 0.01

#: How long a server may stay silent in the middle of an answer before the run is given up.
SILENCE_SECONDS = 300.0

#: One round could fall into a bad moment.
_LEAST_ROUNDS = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadResult:
    """What one server did under the workload; times in seconds, percentiles over requests.

    ``time_per_output_token`` is 0 when no request has a second token.
    """

    time_to_first_token: Percentiles
    time_per_output_token: Percentiles
    end_to_end_latency: Percentiles
    output_tokens_per_second: float
    requests: int
    request_set_digest: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Endpoint:
    """One server: its address (``http://host:port``) and the name it gives its model."""

    base_url: str
    model_name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """One answered request: tokens as counted by the server, times in seconds from its sending."""

    prompt_tokens: int
    output_tokens: int
    first_token_seconds: float
    last_token_seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Round:
    """Requests that were sent together: their answers, in the requests' order, and the time from
    the first sending to the last token of all.
    """

    requests: tuple[Request, ...]
    answers: tuple[Answer, ...]
    wall_seconds: float


def drive(
    base_url: str,
    model_name: str,
    *,
    workload: Workload,
    vocabulary_size: int,
    requests: int,
    warmup: int,
    seed: int,
    progress: Progress,
) -> LoadResult:
    """Send the workload's request set to one server.

    Raises:
        EngineError: the server cannot be reached, refuses a request, falls silent, or answers with
            other lengths than were asked for.
        DataError: the workload's request-set file is wrong.
    """
    chosen = request_set(
        workload, vocabulary_size=vocabulary_size, requests=requests, warmup=warmup, seed=seed
    )
    (result,) = drive_interleaved(
        (Endpoint(base_url=base_url, model_name=model_name),),
        request_set=chosen,
        concurrency=workload.concurrency,
        rounds=1,
        progress=progress,
    )
    return result


def drive_interleaved(
    endpoints: Sequence[Endpoint],
    *,
    request_set: RequestSet,
    concurrency: int,
    rounds: int,
    max_seconds: float = math.inf,
    clock: Callable[[], float] = time.monotonic,
    progress: Progress,
) -> tuple[LoadResult, ...]:
    """Send the same requests to every server, in ``rounds`` slices taken in turn (A B A B), so that
    a machine that drifts does so under all of them.

    After ``max_seconds`` (warm-up not counted) no further round begins, but for the second: on a
    slow machine fewer requests are sent, a beginning of the request set. The results say how many,
    and their digest is that of the requests sent.

    Returns:
        One result per endpoint, in order.

    Raises:
        EngineError: see ``drive``.
    """
    slices = _slices(request_set.measured, rounds, concurrency)
    warmup = len(request_set.warmup)
    progress.task("load test", len(endpoints) * (warmup + len(request_set.measured)))
    for endpoint in endpoints:
        if warmup:
            _send(endpoint, request_set.warmup, concurrency, progress)
    done: list[list[Round]] = [[] for _ in endpoints]
    started, sent = clock(), 0
    for number, part in enumerate(slices):
        if number >= _LEAST_ROUNDS and clock() - started > max_seconds:
            break
        sent += len(part)
        for endpoint, finished in zip(endpoints, done, strict=True):
            finished.append(_send(endpoint, part, concurrency, progress))
    digest = RequestSet(warmup=(), measured=request_set.measured[:sent]).digest
    return tuple(summarise(finished, digest) for finished in done)


def _slices(
    requests: tuple[Request, ...], rounds: int, concurrency: int
) -> list[tuple[Request, ...]]:
    # A slice shorter than the concurrency would never reach it.
    count = max(1, min(rounds, len(requests) // max(1, concurrency)))
    edges = [len(requests) * index // count for index in range(count + 1)]
    return [requests[low:high] for low, high in itertools.pairwise(edges)]


def summarise(rounds: Sequence[Round], request_set_digest: str) -> LoadResult:
    """Percentiles over all requests of all rounds; throughput is output tokens over wall time.

    Raises:
        EngineError: the lengths of a round are off by more than ``LENGTH_TOLERANCE``.
    """
    for each in rounds:
        check_lengths(each)
    answers = [answer for each in rounds for answer in each.answers]
    per_token = [
        (answer.last_token_seconds - answer.first_token_seconds) / (answer.output_tokens - 1)
        for answer in answers
        if answer.output_tokens > 1
    ]
    return LoadResult(
        time_to_first_token=percentiles([answer.first_token_seconds for answer in answers]),
        time_per_output_token=percentiles(per_token or [0.0]),
        end_to_end_latency=percentiles([answer.last_token_seconds for answer in answers]),
        output_tokens_per_second=sum(answer.output_tokens for answer in answers)
        / sum(each.wall_seconds for each in rounds),
        requests=len(answers),
        request_set_digest=request_set_digest,
    )


def check_lengths(finished: Round) -> None:
    """Refuse a round whose tokens, as the server counted them, are not those asked for.

    Raises:
        EngineError: naming the intended and the actual numbers.
    """
    pairs = list(zip(finished.requests, finished.answers, strict=True))
    for name, asked, got in (
        (
            "prompt",
            [len(request.prompt_token_ids) for request, _ in pairs],
            [answer.prompt_tokens for _, answer in pairs],
        ),
        (
            "output",
            [request.output_tokens for request, _ in pairs],
            [answer.output_tokens for _, answer in pairs],
        ),
    ):
        off = sum(abs(wanted - actual) for wanted, actual in zip(asked, got, strict=True))
        if off > LENGTH_TOLERANCE * sum(asked):
            raise EngineError(
                f"load test rejected: {sum(asked)} {name} tokens were asked for in {len(pairs)} "
                f"requests, the server counted {sum(got)} ({off / sum(asked):.1%} off, at most "
                f"{LENGTH_TOLERANCE:.0%} is accepted); check that the engine honours ignore_eos "
                "and its limit on the context"
            )


def percentiles(seconds: Sequence[float]) -> Percentiles:
    """Mean and percentiles, linearly interpolated between order statistics (numpy's default)."""
    values = np.asarray(seconds, dtype=np.float64)
    p50, p90, p95, p99 = (float(value) for value in np.percentile(values, (50, 90, 95, 99)))
    return Percentiles(mean=float(values.mean()), p50=p50, p90=p90, p95=p95, p99=p99)


def _send(
    endpoint: Endpoint, requests: tuple[Request, ...], concurrency: int, progress: Progress
) -> Round:
    return asyncio.run(_closed_loop(endpoint, requests, concurrency, progress))


async def _closed_loop(
    endpoint: Endpoint, requests: tuple[Request, ...], concurrency: int, progress: Progress
) -> Round:
    answers: dict[int, Answer] = {}
    waiting = iter(enumerate(requests))
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=30.0, sock_read=SILENCE_SECONDS)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(
        timeout=timeout, connector=connector, trust_env=False
    ) as session:

        async def client(queue: Iterator[tuple[int, Request]]) -> None:
            # The clients share one iterator, which makes the loop closed.
            for index, request in queue:
                answers[index] = await _complete(session, endpoint, request)
                progress.advance()

        started = time.perf_counter()
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(concurrency, len(requests))):
                    group.create_task(client(waiting))
        except* (EngineError, aiohttp.ClientError, TimeoutError) as failures:
            raise _as_engine_error(failures, endpoint) from failures
        wall = time.perf_counter() - started
    return Round(
        requests=requests,
        answers=tuple(answers[index] for index in range(len(requests))),
        wall_seconds=wall,
    )


def _as_engine_error(
    failures: BaseExceptionGroup[BaseException], endpoint: Endpoint
) -> EngineError:
    first: BaseException = failures
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    if isinstance(first, EngineError):
        return EngineError(str(first))
    if isinstance(first, TimeoutError):
        return EngineError(
            f"load test: {endpoint.base_url} sent nothing for {SILENCE_SECONDS:.0f} s"
        )
    return EngineError(f"load test: {endpoint.base_url} failed: {type(first).__name__}: {first}")


async def _complete(session: aiohttp.ClientSession, endpoint: Endpoint, request: Request) -> Answer:
    url = endpoint.base_url.rstrip("/").removesuffix("/v1") + "/v1/completions"
    body = {
        "model": endpoint.model_name,
        "prompt": list(request.prompt_token_ids),
        "max_tokens": request.output_tokens,
        "min_tokens": request.output_tokens,
        "ignore_eos": True,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    first = last = None
    usage: tuple[int, int] | None = None
    started = time.perf_counter()
    async with session.post(url, json=body) as response:
        if response.status != 200:
            text = (await response.text())[:1000]
            raise EngineError(f"load test: {url} answered {response.status}: {text}")
        async for line in response.content:
            now = time.perf_counter()
            event = _event(line)
            if event is None:
                continue
            if event.has_token:
                first = now if first is None else first
                last = now
            usage = event.usage or usage
    if first is None or last is None or usage is None:
        raise EngineError(
            f"load test: {url} ended an answer without "
            + ("a token" if first is None else "its token counts (usage)")
        )
    return Answer(
        prompt_tokens=usage[0],
        output_tokens=usage[1],
        first_token_seconds=first - started,
        last_token_seconds=last - started,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Event:
    has_token: bool
    usage: tuple[int, int] | None


def _event(line: bytes) -> _Event | None:
    """One server-sent event of a completion stream; ``None`` for lines that carry nothing."""
    if not line.startswith(b"data:"):
        return None
    data = line[5:].strip()
    if data == b"[DONE]":
        return None
    try:
        value = json.loads(data)
    except ValueError as error:
        raise EngineError(f"load test: the server streamed {data[:200]!r}, not JSON") from error
    if "error" in value:
        raise EngineError(f"load test: the server streamed an error: {value['error']}")
    counts = value.get("usage")
    return _Event(
        has_token=bool(value.get("choices")),
        usage=(counts["prompt_tokens"], counts["completion_tokens"]) if counts else None,
    )
