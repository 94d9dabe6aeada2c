"""Progress on standard error: plain lines and JSON lines."""

from __future__ import annotations

import io
import json

from autocompress.display import JsonProgress, PlainProgress


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_plain_lines_are_paced_and_tell_the_time_left():
    stream, clock = io.StringIO(), Clock()
    progress = PlainProgress("search", stream, every_seconds=10, clock=clock)
    progress.task("training", 4)
    for second in (1, 12, 13, 40):
        clock.now = float(second)
        progress.advance(1)
    assert stream.getvalue().splitlines() == [
        "[search] training",
        "[search] training: 50%, 12 s left",
        "[search] training: 100%, 40 s",
    ]


def test_json_lines_carry_every_step():
    stream = io.StringIO()
    progress = JsonProgress("profile", stream)
    progress.task("measuring", 2)
    progress.advance(1, note="decode")
    progress.say("reused")
    assert [json.loads(line) for line in stream.getvalue().splitlines()] == [
        {"stage": "profile", "task": "measuring", "done": 0, "total": 2},
        {"stage": "profile", "task": "measuring", "done": 1.0, "total": 2, "note": "decode"},
        {"stage": "profile", "message": "reused"},
    ]
