"""Named suites of benchmarks: which tasks, how many items of each, how much held-out text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autocompress.contract.errors import SpecError


@dataclass(frozen=True, kw_only=True, slots=True)
class Suite:
    """``limits``: items per task, ``None`` for all; ``text_bytes``: held-out text of each kind."""

    name: str
    limits: Mapping[str, int | None]
    text_bytes: int


_SUITES = (
    Suite(
        name="smoke",
        limits={"piqa": 8, "openbookqa": 8, "winogrande": 8, "humaneval_choice": 2},
        text_bytes=2_000,
    ),
    Suite(
        name="default",
        limits={
            "piqa": 100,
            "hellaswag": 60,
            "openbookqa": 100,
            "arc_challenge": 40,
            "winogrande": 60,
            "boolq": 20,
            "truthfulqa_mc1": 30,
            "humaneval_choice": 10,
        },
        text_bytes=6_000,
    ),
    Suite(
        name="full",
        limits=dict.fromkeys(
            (
                "piqa",
                "hellaswag",
                "openbookqa",
                "arc_challenge",
                "winogrande",
                "boolq",
                "truthfulqa_mc1",
                "humaneval_choice",
            )
        ),
        text_bytes=200_000,
    ),
)


def find_suite(name: str, limit: int | None = None) -> Suite:
    """The suite called ``name``, with at most ``limit`` items of every task.

    Raises:
        SpecError: no suite has that name, or the limit is below 1.
    """
    for suite in _SUITES:
        if suite.name == name:
            break
    else:
        known = ", ".join(suite.name for suite in _SUITES)
        raise SpecError(f"spec.quality.suite={name}: unknown; use one of {known}")
    if limit is None:
        return suite
    if limit < 1:
        raise SpecError(f"spec.quality.limit={limit}: must be at least 1; leave it out for all")
    return Suite(
        name=suite.name,
        limits={
            task: limit if own is None else min(own, limit) for task, own in suite.limits.items()
        },
        text_bytes=suite.text_bytes,
    )
