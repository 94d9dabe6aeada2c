"""Parent and compressed model compared, answer by answer."""

from __future__ import annotations

import random
from statistics import fmean, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocompress.contract.errors import DataError
from autocompress.evaluation.results import ModelQuality, TaskResult, TextResult, compare


def quality(*tasks: tuple[bool, ...], bits: float = 1.0) -> ModelQuality:
    return ModelQuality(
        suite="s",
        tasks=tuple(
            TaskResult(name=f"t{i}", metric="acc", chance=0.5, correct=each)
            for i, each in enumerate(tasks)
        ),
        texts=(TextResult(name="code", bytes=100, tokens=40, bits_per_byte=bits),),
    )


def test_by_hand() -> None:
    parent = quality((True, True, False, True), (True, False))
    pruned = quality((False, False, False, True), (False, False), bits=3.0)
    compressed = quality((True, False, False, True), (True, False), bits=1.5)
    result = compare(parent, pruned, compressed, min_retention_percent=80)
    assert result.parent_mean == pytest.approx((0.75 + 0.5) / 2)
    assert result.pruned_mean == pytest.approx(0.125)
    assert result.compressed_mean == pytest.approx(0.5)
    assert result.retention_percent == pytest.approx(80)
    assert result.met
    first = result.tasks[0]
    assert (first.parent, first.pruned, first.compressed, first.items) == (0.75, 0.25, 0.5, 4)
    assert first.parent_error == pytest.approx((0.75 * 0.25 / 3) ** 0.5)
    text = result.texts[0]
    assert (text.parent, text.pruned, text.compressed) == (1.0, 3.0, 1.5)
    # 100 bytes are 40 tokens: 1 bit per byte is 2.5 bits per token.
    assert text.perplexity(text.parent) == pytest.approx(2**2.5)
    assert not compare(parent, pruned, compressed, min_retention_percent=81).met


answers = st.lists(
    st.lists(st.booleans(), min_size=1, max_size=10).map(tuple), min_size=1, max_size=5
)


@given(answers.filter(lambda tasks: any(any(task) for task in tasks)))
def test_a_model_keeps_all_of_itself(tasks: list[tuple[bool, ...]]) -> None:
    result = compare(quality(*tasks), quality(*tasks), quality(*tasks), min_retention_percent=100)
    assert result.retention_percent == pytest.approx(100)
    assert result.retention_error_percent == 0
    assert result.met


def test_the_standard_error_is_that_of_drawing_the_items_again() -> None:
    generator = random.Random(5)
    tasks = []
    for right, kept in ((0.7, 0.9), (0.4, 0.7)):
        rows = []
        for _ in range(120):
            of = generator.random() < right
            rows.append((of, generator.random() < (kept if of else 0.15)))
        tasks.append(rows)

    def retained(drawn: list[list[tuple[bool, bool]]]) -> float:
        means = [fmean(fmean(row[side] for row in rows) for rows in drawn) for side in (0, 1)]
        return 100 * means[1] / means[0]

    again = pstdev(
        retained([generator.choices(rows, k=len(rows)) for rows in tasks]) for _ in range(2000)
    )
    sides = [quality(*(tuple(row[side] for row in rows) for rows in tasks)) for side in (0, 1)]
    result = compare(sides[0], sides[1], sides[1], min_retention_percent=50)
    assert result.retention_percent == pytest.approx(retained(tasks))
    assert result.retention_error_percent == pytest.approx(again, rel=0.1)


def test_a_parent_that_knows_nothing_is_no_measure() -> None:
    with pytest.raises(DataError, match="another spec"):
        compare(quality((False,)), quality((True,)), quality((True,)), min_retention_percent=90)
