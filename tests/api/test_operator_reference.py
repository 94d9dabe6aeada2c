"""docs/operator.md names everything that a cluster may show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from autocompress.api import names
from autocompress.api.v1alpha1.status import ConditionReason, ConditionType, FailureReason
from autocompress.contract.errors import ExitCode

REFERENCE = (Path(__file__).parents[2] / "docs" / "operator.md").read_text(encoding="utf-8")
KEYS = [
    value
    for name, value in sorted(vars(names).items())
    if name.startswith(("LABEL_", "ANNOTATION_", "FINALIZER"))
]


def section(heading: str) -> str:
    """The text below a heading, up to the next of its rank."""
    rank = heading.split(" ", maxsplit=1)[0]
    _, _, rest = REFERENCE.partition(f"\n{heading}\n")
    assert rest, f"no section {heading}"
    return re.split(rf"\n#{{1,{len(rank)}}} ", rest)[0]


@pytest.mark.parametrize("type_", list(ConditionType))
def test_every_condition_has_a_row(type_: ConditionType) -> None:
    assert f"\n| `{type_}` |" in section("## Conditions")


@pytest.mark.parametrize("reason", list(ConditionReason))
def test_every_reason_of_a_condition_is_explained(reason: ConditionReason) -> None:
    assert f"`{reason}`" in section("## Conditions")


@pytest.mark.parametrize("reason", list(FailureReason))
def test_every_failure_has_a_remedy(reason: FailureReason) -> None:
    rows = [
        line
        for line in section("### Why an attempt failed").splitlines()
        if line.startswith("|") and f"`{reason}`" in line.split("|")[1]
    ]
    assert len(rows) == 1
    assert len(rows[0].split("|")[2].strip()) > 5


@pytest.mark.parametrize("key", KEYS)
def test_every_label_and_annotation_is_named(key: str) -> None:
    assert key in section("## Running, stopping, trying again")


@pytest.mark.parametrize("code", [code for code in ExitCode if code != ExitCode.DONE])
def test_every_exit_code_is_named(code: ExitCode) -> None:
    assert f"\n| {code.value} |" in section("## Exit codes of stages")
