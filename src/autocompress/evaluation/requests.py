"""The requests of a load test: a pure function of workload and seed, or read from a file."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from autocompress.contract.digest import digest
from autocompress.contract.errors import DataError
from autocompress.domain.deployment import Workload


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """One completion: the prompt as token ids, and how many tokens must come back."""

    prompt_token_ids: tuple[int, ...]
    output_tokens: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestSet:
    """What is sent: ``warmup`` first, untimed, then ``measured``."""

    warmup: tuple[Request, ...]
    measured: tuple[Request, ...]

    @property
    def digest(self) -> str:
        """The digest of the measured requests, in order."""
        return digest(self.measured)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Line:
    prompt: int | tuple[int, ...]
    output_tokens: int


def request_set(
    workload: Workload, *, vocabulary_size: int, requests: int, warmup: int, seed: int
) -> RequestSet:
    """Make the request set of a workload; equal arguments give equal requests.

    Prompts of declared lengths are uniform random token ids, so that no two requests share a prefix
    that an engine could cache. A request-set file replaces the lengths, and, where it gives token
    ids, the prompts: ``requests`` of its lines are drawn by ``seed`` (all when it has fewer).

    Raises:
        DataError: the request-set file cannot be read or a line of it does not fit the workload.
    """
    generator = random.Random(seed)
    if workload.request_set_uri is None:
        lines: Sequence[_Line] = [
            _Line(prompt=workload.prompt_tokens, output_tokens=workload.output_tokens)
        ] * requests
    else:
        lines = _read(workload.request_set_uri, workload, vocabulary_size)
        if len(lines) > requests:
            kept = sorted(generator.sample(range(len(lines)), requests))
            lines = [lines[index] for index in kept]
    measured = tuple(_request(line, vocabulary_size, generator) for line in lines)
    # Warm-up prompts are always fresh: a warm-up on measured prompts would fill the prefix cache.
    warm = tuple(
        _request(
            _Line(
                prompt=len(measured[index % len(measured)].prompt_token_ids),
                output_tokens=measured[index % len(measured)].output_tokens,
            ),
            vocabulary_size,
            generator,
        )
        for index in range(warmup)
    )
    return RequestSet(warmup=warm, measured=measured)


def _request(line: _Line, vocabulary_size: int, generator: random.Random) -> Request:
    if isinstance(line.prompt, int):
        prompt = tuple(generator.randrange(vocabulary_size) for _ in range(line.prompt))
    else:
        prompt = line.prompt
    return Request(prompt_token_ids=prompt, output_tokens=line.output_tokens)


def _read(uri: str, workload: Workload, vocabulary_size: int) -> list[_Line]:
    path = _local_path(uri)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"workload.requestSet.uri={uri}: cannot be read ({error}); give a UTF-8 JSONL file"
        ) from error
    lines = [
        _parse(line, f"{uri}, line {number}", workload, vocabulary_size)
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip()
    ]
    if not lines:
        raise DataError(f"workload.requestSet.uri={uri}: holds no request")
    return lines


def _local_path(uri: str) -> Path:
    parts = urlsplit(uri)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    if parts.scheme:
        raise DataError(
            f"workload.requestSet.uri={uri}: scheme {parts.scheme}:// is not supported here; "
            "give a file:// URI or a path"
        )
    return Path(uri)


def _parse(line: str, where: str, workload: Workload, vocabulary_size: int) -> _Line:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise DataError(f"{where}: is not JSON ({error})") from error
    if not isinstance(value, dict) or not {*value} <= {
        "prompt_tokens",
        "prompt_token_ids",
        "output_tokens",
    }:
        raise DataError(
            f"{where}: must be an object with output_tokens and either prompt_tokens (a count) or "
            "prompt_token_ids (a list), nothing else"
        )
    output_tokens = _count(value.get("output_tokens"), "output_tokens", where)
    if ("prompt_tokens" in value) == ("prompt_token_ids" in value):
        raise DataError(f"{where}: give exactly one of prompt_tokens and prompt_token_ids")
    prompt: int | tuple[int, ...]
    if "prompt_tokens" in value:
        prompt = length = _count(value["prompt_tokens"], "prompt_tokens", where)
    else:
        ids = value["prompt_token_ids"]
        if not isinstance(ids, list) or not ids:
            raise DataError(f"{where}: prompt_token_ids must be a list of at least one token id")
        for item in ids:
            if (
                not isinstance(item, int)
                or isinstance(item, bool)
                or not 0 <= item < vocabulary_size
            ):
                raise DataError(
                    f"{where}: prompt_token_ids has {item!r}; token ids are whole numbers from "
                    f"0 to {vocabulary_size - 1}"
                )
        prompt, length = tuple(ids), len(ids)
    if length + output_tokens > workload.context_tokens:
        raise DataError(
            f"{where}: {length} prompt and {output_tokens} output tokens do not fit "
            f"workload.contextTokens={workload.context_tokens}; raise it or drop the line"
        )
    return _Line(prompt=prompt, output_tokens=output_tokens)


def _count(value: object, name: str, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise DataError(f"{where}: {name}={value!r}; must be a whole number of at least 1")
    return value
