"""The load test against a small server that streams as OpenAI's does."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocompress.contract.errors import DataError, EngineError
from autocompress.contract.progress import Silent
from autocompress.domain.deployment import Workload
from autocompress.evaluation.load_test import (
    Answer,
    Endpoint,
    Round,
    drive,
    drive_interleaved,
    percentiles,
    summarise,
)
from autocompress.evaluation.requests import Request, request_set
from autocompress.testing.completions_server import Script, completions_server

WORKLOAD = Workload(
    prompt_tokens=12, output_tokens=5, concurrency=3, context_tokens=32, max_sequences=4
)


def run(url: str, workload: Workload = WORKLOAD, requests: int = 7) -> object:
    return drive(
        url,
        "m",
        workload=workload,
        vocabulary_size=100,
        requests=requests,
        warmup=2,
        seed=3,
        progress=Silent(),
    )


def test_counts_and_structure() -> None:
    script = Script()
    with completions_server(script) as url:
        result = drive(
            url,
            "m",
            workload=WORKLOAD,
            vocabulary_size=100,
            requests=7,
            warmup=2,
            seed=3,
            progress=Silent(),
        )
    assert result.requests == 7
    assert len(script.bodies) == 9
    assert script.most_active == WORKLOAD.concurrency
    body = script.bodies[0]
    assert body["ignore_eos"] is True
    assert body["temperature"] == 0
    assert body["stream_options"] == {"include_usage": True}
    assert {len(each["prompt"]) for each in script.bodies} == {12}  # type: ignore[arg-type]
    first, end = result.time_to_first_token, result.end_to_end_latency
    assert 0 < first.p50 < end.p50
    assert result.time_per_output_token.p50 > 0
    assert first.p50 <= first.p90 <= first.p95 <= first.p99
    assert result.output_tokens_per_second > 0
    assert result.request_set_digest.startswith("sha256:")


def test_every_server_gets_the_same_requests_in_turn() -> None:
    first, second = Script(), Script()
    log: list[str] = []
    chosen = request_set(WORKLOAD, vocabulary_size=100, requests=6, warmup=1, seed=1)
    with completions_server(first, log, "a") as one, completions_server(second, log, "b") as two:
        results = drive_interleaved(
            (Endpoint(base_url=one, model_name="a"), Endpoint(base_url=two, model_name="b")),
            request_set=chosen,
            concurrency=3,
            rounds=2,
            progress=Silent(),
        )
    assert log == ["a", "b", *"aaabbbaaabbb"]
    prompts = [sorted(str(body["prompt"]) for body in each.bodies) for each in (first, second)]
    assert prompts[0] == prompts[1]
    assert [result.requests for result in results] == [6, 6]
    assert results[0].request_set_digest == results[1].request_set_digest == chosen.digest


def test_a_slow_machine_sends_fewer_requests() -> None:
    chosen = request_set(WORKLOAD, vocabulary_size=100, requests=12, warmup=0, seed=1)
    with completions_server(Script()) as url:
        (result,) = drive_interleaved(
            (Endpoint(base_url=url, model_name="m"),),
            request_set=chosen,
            concurrency=1,
            rounds=6,
            max_seconds=10,
            clock=iter((0.0, 9.0, 11.0)).__next__,
            progress=Silent(),
        )
    # The second round is always sent, the third began in time, the fourth would not have.
    assert result.requests == 6
    assert result.request_set_digest == replace(chosen, measured=chosen.measured[:6]).digest


def test_wrong_lengths_are_rejected() -> None:
    # 512 tokens were asked for and 43 came back: the figures of such a run mean nothing.
    with (
        completions_server(Script(tokens=2)) as url,
        pytest.raises(EngineError, match=r"35 output .*counted 14"),
    ):
        run(url)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (Script(status=404), "404: no such model"),
        (Script(stream_error=True), "out of blocks"),
        (Script(usage=False), "token counts"),
        (Script(tokens=0), "a token"),
    ],
)
def test_server_faults_are_named(script: Script, message: str) -> None:
    with completions_server(script) as url, pytest.raises(EngineError, match=message):
        run(url)


def test_unreachable_server() -> None:
    with pytest.raises(EngineError, match=r"127\.0\.0\.1:9"):
        run("http://127.0.0.1:9")


def test_summary_by_hand() -> None:
    request = Request(prompt_token_ids=(1, 2), output_tokens=3)
    answers = tuple(
        Answer(
            prompt_tokens=2,
            output_tokens=3,
            first_token_seconds=first,
            last_token_seconds=first + 2 * per_token,
        )
        for first, per_token in ((1.0, 0.1), (3.0, 0.3))
    )
    rounds = [Round(requests=(request,), answers=(answer,), wall_seconds=2.0) for answer in answers]
    result = summarise(rounds, "sha256:x")
    assert result.time_to_first_token.mean == pytest.approx(2.0)
    assert result.time_to_first_token.p90 == pytest.approx(2.8)
    assert result.time_per_output_token.p50 == pytest.approx(0.2)
    assert result.end_to_end_latency.p50 == pytest.approx(2.4)
    assert result.output_tokens_per_second == pytest.approx(6 / 4)


@given(st.lists(st.floats(1e-4, 1e3), min_size=1, max_size=50))
def test_percentiles_are_ordered_and_inside(values: list[float]) -> None:
    result = percentiles(values)
    ordered = [min(values), result.p50, result.p90, result.p95, result.p99, max(values)]
    assert all(a <= b * (1 + 1e-12) for a, b in itertools.pairwise(ordered))


@given(st.integers(0, 2**31), st.integers(1, 20), st.integers(0, 3))
def test_requests_depend_on_nothing_but_their_arguments(seed: int, count: int, warmup: int) -> None:
    def make(seed: int) -> object:
        return request_set(WORKLOAD, vocabulary_size=1000, requests=count, warmup=warmup, seed=seed)

    assert make(seed) == make(seed)
    assert make(seed) != make(seed + 1)


def workload_from(path: Path) -> Workload:
    return Workload(
        prompt_tokens=1,
        output_tokens=1,
        concurrency=1,
        context_tokens=32,
        max_sequences=1,
        request_set_uri=path.as_uri(),
    )


def test_request_set_file(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_text(
        '{"prompt_tokens": 8, "output_tokens": 4}\n\n'
        '{"prompt_token_ids": [5, 6, 7], "output_tokens": 2}\n'
    )
    chosen = request_set(workload_from(path), vocabulary_size=50, requests=10, warmup=3, seed=0)
    assert [len(request.prompt_token_ids) for request in chosen.measured] == [8, 3]
    assert chosen.measured[1] == Request(prompt_token_ids=(5, 6, 7), output_tokens=2)
    assert not {*chosen.warmup} & {*chosen.measured}
    script = Script()
    with completions_server(script) as url:
        run(url, workload_from(path), requests=2)
    assert sorted(body["max_tokens"] for body in script.bodies[-2:]) == [2, 4]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: is not JSON"),
        ('{"prompt_tokens": 3}', "line 2: output_tokens=None"),
        ('{"output_tokens": 3}', "line 2: give exactly one"),
        ('{"prompt_tokens": 0, "output_tokens": 3}', "line 2: prompt_tokens=0"),
        ('{"prompt_tokens": true, "output_tokens": 3}', "line 2: prompt_tokens=True"),
        ('{"prompt_token_ids": [1, 99], "output_tokens": 3}', "line 2: .*99.* 0 to 49"),
        ('{"prompt_tokens": 30, "output_tokens": 3}', "line 2: .*contextTokens=32"),
        ('{"prompt_tokens": 3, "output_tokens": 3, "x": 1}', "line 2: must be an object"),
        ("[]", "line 2: must be an object"),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_text('{"prompt_tokens": 8, "output_tokens": 4}\n' + line + "\n")
    with pytest.raises(DataError, match=message):
        request_set(workload_from(path), vocabulary_size=50, requests=2, warmup=0, seed=0)


def test_missing_and_empty_request_sets(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    with pytest.raises(DataError, match="cannot be read"):
        request_set(workload_from(path), vocabulary_size=50, requests=2, warmup=0, seed=0)
    path.write_text("\n")
    with pytest.raises(DataError, match="holds no request"):
        request_set(workload_from(path), vocabulary_size=50, requests=2, warmup=0, seed=0)
