"""Termination messages: whole, never too long, and cut where little is lost."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocompress.contract.documents import load
from autocompress.contract.errors import Reason
from autocompress.contract.stage import Outcome
from autocompress.contract.termination import (
    MAX_BYTES,
    CostReport,
    LimitReport,
    ModelReport,
    QualityReport,
    StageFault,
    StageReport,
    TaskReport,
    encode,
    shorten,
)

DIGEST = "sha256:" + "8" * 64
ROOT = "s3://bucket/some/team/prefix"
REPORT = StageReport(
    stage="validate",
    outcome=Outcome.DONE,
    message="budget met, TimePerOutputTokenP95 at 97% of its limit; quality retained 98.4 %",
    source_revision=DIGEST,
    input_digest=DIGEST,
    output_digest=DIGEST,
    manifest_uri=f"{ROOT}/stages/validate/{'8' * 64}/manifest.json",
    figures={f"figure_{index}": index / 7 for index in range(24)},
    budget=tuple(
        LimitReport(
            name=name,
            unit="ms",
            limit=25.123456,
            predicted=23.123456,
            measured=24.123456,
            met=True,
            utilization_percent=96.1234,
        )
        for name in ("TimeToFirstTokenP95", "TimePerOutputTokenP95", "EndToEndLatencyP99")
    ),
    quality=QualityReport(
        suite="default",
        baseline=0.712345,
        measured=0.701234,
        retention_percent=98.4404,
        tasks=tuple(
            TaskReport(name=f"task_{n}", baseline=0.612345, measured=0.601234, standard_error=0.01)
            for n in range(8)
        ),
    ),
    model=ModelReport(
        uri=f"{ROOT}/models/{'8' * 64}/{'8' * 16}",
        manifest_uri=f"{ROOT}/models/{'8' * 64}/manifest.json",
        digest=DIGEST,
    ),
    cost=CostReport(
        wall_seconds=1520.123,
        device_hours=0.422256,
        tokens=2_100_000,
        engine_starts=2,
        bytes_moved=812_345_678,
    ),
)


def read(data: bytes) -> StageReport:
    assert len(data) <= MAX_BYTES
    return load(StageReport, data, name="message")


def test_a_usual_report_is_left_whole():
    assert read(encode(REPORT)) == REPORT


def test_figures_go_first_then_the_message_then_the_last_benchmarks():
    figures = {f"figure {n}": "x" * 100 for n in range(40)}
    assert read(encode(replace(REPORT, figures=figures))) == replace(REPORT, figures={})
    long = "The parent was measured twice. " * 400
    cut = read(encode(replace(REPORT, message=long)))
    assert cut == replace(REPORT, figures={}, message=cut.message)
    assert cut.message.endswith("twice. …")
    tasks = tuple(replace(REPORT.quality.tasks[0], name=f"task_{n:02}") for n in range(60))
    fewer = read(
        encode(replace(REPORT, message=long, quality=replace(REPORT.quality, tasks=tasks)))
    )
    kept = len(fewer.quality.tasks)
    assert 8 < kept < 60
    assert fewer.quality.tasks == tasks[:kept]
    assert (fewer.budget, fewer.model, fewer.cost) == (REPORT.budget, REPORT.model, REPORT.cost)


anything = st.text(max_size=9000) | st.builds(str.__mul__, st.text(max_size=40), st.just(400))


@given(anything)
def test_whatever_is_said_the_message_fits(text):
    limits = tuple(replace(REPORT.budget[0], name=f"{n:063}") for n in range(16))
    report = replace(REPORT, message=text, budget=limits)
    read(encode(report))
    fault = StageFault(stage="search", reason=Reason.BAD_DATA, message=text)
    data = encode(fault)
    assert len(data) <= MAX_BYTES
    back = load(StageFault, data, name="message")
    assert back.reason is Reason.BAD_DATA
    if text.isprintable() and len(text.encode()) < 2000:
        assert back.message == text


def test_the_identity_of_a_result_goes_last():
    endless = f"s3://bucket/{'p' * 900}"
    report = replace(
        REPORT,
        manifest_uri=f"{endless}/stages/validate/{'8' * 64}/manifest.json",
        model=ModelReport(
            uri=f"{endless}/models/{'8' * 64}/{'8' * 16}",
            manifest_uri=f"{endless}/models/{'8' * 64}/manifest.json",
            digest=DIGEST,
        ),
        message="text " * 2000,
    )
    back = read(encode(report))
    assert (back.outcome, back.output_digest, back.model) == (
        Outcome.DONE,
        DIGEST,
        report.model,
    )


@pytest.mark.parametrize(
    ("text", "size", "cut"),
    [
        ("short", 10, "short"),
        ("One thing. Another thing and more", 24, "One thing. Another …"),
        ("One long thing here. Another", 27, "One long thing here. …"),
        ("some words that go on", 16, "some words …"),
        ("x" * 30, 10, "xxxxxx…"),
        ("it failed:\none line\ntwo lines\nthree", 24, "it failed:\n…\nthree"),
        ("ä" * 10, 0, ""),
    ],
)
def test_where_a_message_is_cut(text, size, cut):
    assert shorten(text, size) == cut
    assert len(cut.encode()) <= max(size, 0)
