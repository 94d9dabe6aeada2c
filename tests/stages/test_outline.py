"""Percent and time left of a whole stage, from the tasks that it names."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import autocompress
from autocompress.contract.stage import Stage
from autocompress.stages.outline import OUTLINE, Course


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def weight(stage: Stage, *tasks: str) -> float:
    whole = sum(task.weight for task in OUTLINE[stage])
    return sum(task.weight for task in OUTLINE[stage] if task.task in tasks) / whole


def test_a_stage_is_as_far_as_its_tasks_weigh():
    course = Course(Stage.SEARCH, Clock())
    assert (course.task, course.share(), course.remaining_seconds()) == ("", 0.0, None)
    course.begin("searching", 10)  # fetched and ranked before: that counts as done
    before = weight(Stage.SEARCH, "fetching the parent", "ranking by activations", "ranking blocks")
    assert course.share() == pytest.approx(before)
    course.advance(5)
    assert course.share() == pytest.approx(before + weight(Stage.SEARCH, "searching") / 2)
    assert course.task_share() == 0.5
    course.begin("judging finalists", 2)
    course.advance(2)
    assert course.share() == 1.0


def test_the_time_left_is_that_of_the_task_and_of_what_is_ahead():
    clock = Clock()
    course = Course(Stage.SEARCH, clock)
    course.begin("searching", 10)
    for _ in range(6):
        clock.now += 10
        course.advance(1)
    assert course.remaining_seconds() == pytest.approx(
        40 + 100 * weight(Stage.SEARCH, "judging finalists") / weight(Stage.SEARCH, "searching")
    )


def test_what_was_resumed_does_not_count_as_fast():
    clock = Clock()
    course = Course(Stage.RECOVER, clock)
    course.begin("distilling", 100)
    course.advance(50)
    assert course.remaining_seconds() is None
    for _ in range(10):
        clock.now += 1
        course.advance(1)
    assert course.remaining_seconds() == pytest.approx(40)


def test_an_unknown_task_moves_nothing():
    course = Course(Stage.RECOVER, Clock())
    course.begin("polishing", 2)
    course.advance(1)
    assert (course.task, course.share(), course.remaining_seconds()) == ("polishing", 0.0, None)
    course.begin("distilling", 2)
    known = course.share()
    course.advance(1)
    assert course.share() > known


def said_in_sources() -> set[str]:
    """What tasks begin with, as the stages name them: whole names, and what a name begins with."""
    said = set()
    for path in Path(autocompress.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            if node.func.attr == "task" and node.args:
                name = node.args[0]
                first = name.values[0] if isinstance(name, ast.JoinedStr) else name
                if isinstance(first, ast.Constant):
                    said.add(str(first.value))
    return said


def test_the_outline_and_the_stages_use_the_same_names():
    said = said_in_sources()
    known = {task.task for tasks in OUTLINE.values() for task in tasks}
    assert [name for name in known if not any(name.startswith(text) for text in said)] == []
    assert [text for text in said if not any(name.startswith(text) for name in known)] == []


names = st.sampled_from([task.task for task in OUTLINE[Stage.VALIDATE]] + ["something else"])


@given(st.lists(st.tuples(names, st.floats(0, 9), st.lists(st.floats(0, 9), max_size=5))))
def test_it_never_goes_backwards_nor_beyond_the_end(tasks):
    clock = Clock()
    course = Course(Stage.VALIDATE, clock)
    last = 0.0
    for name, total, amounts in tasks:
        course.begin(name, total)
        for amount in amounts:
            clock.now += amount
            course.advance(amount)
            assert last <= course.share() <= 1.0 + 1e-9
            last = course.share()
            remaining = course.remaining_seconds()
            assert remaining is None or remaining >= 0
