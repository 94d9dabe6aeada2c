"""A report is gathered from what finished stages left, and renders whatever that is."""

from __future__ import annotations

from pathlib import Path

import pytest
from report_samples import JOB, complete

from autocompress.contract.documents import dump
from autocompress.contract.errors import DataError
from autocompress.contract.stage import Manifest, Outcome, Stage, Summary
from autocompress.domain.deployment import Workload
from autocompress.report.collect import collect
from autocompress.report.html import render
from autocompress.store.artifacts import Reference
from autocompress.store.directory import DirectoryStore
from autocompress.testing.costs import made_up_model

FULL = complete()
assert FULL.space is not None
TABLE = made_up_model(
    FULL.space,
    Workload(
        prompt_tokens=128, output_tokens=64, concurrency=1, context_tokens=192, max_sequences=1
    ),
).table
DOCUMENTS = {
    Stage.PROFILE: {
        "space.json": FULL.space,
        "held_out.json": FULL.held_out,
        "parent_costs.json": FULL.parent_costs,
        "cost_table.json": TABLE,
    },
    Stage.SEARCH: {
        "ranking.json": FULL.ranking,
        "architecture.json": FULL.architecture,
        "predicted_costs.json": FULL.predicted_costs,
        "trace.json": FULL.trace,
        "reordered.json": Reference(
            prefix="shared/reordered-parent/abc",
            kind="reordered-parent",
            input_digest="sha256:" + "0" * 64,
            output_digest="sha256:" + "1" * 64,
        ),
    },
    Stage.RECOVER: {"curve.json": FULL.curve},
    Stage.VALIDATE: {"scorecard.json": FULL.scorecard},
}


def manifest(stage: Stage, outcome: Outcome = Outcome.DONE) -> Manifest:
    return Manifest(
        kind=stage.value,
        input_digest=f"sha256:in-{stage.value}",
        output_digest=f"sha256:out-{stage.value}",
        files={},
        summary=Summary(stage=stage, outcome=outcome, message="said so"),
        wall_seconds=12.5,
        peak_memory_bytes=2**30,
    )


def folders(root: Path, stages: tuple[Stage, ...]) -> dict[Stage, Path]:
    found = {}
    for stage in stages:
        found[stage] = root / stage.value
        found[stage].mkdir()
        for name, value in DOCUMENTS[stage].items():
            (found[stage] / name).write_bytes(dump(value))
    return found


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    return DirectoryStore(tmp_path / "store")


def test_everything_that_stages_left_is_read_back(tmp_path: Path, store: DirectoryStore):
    stages = tuple(Stage)
    data = collect(store, JOB, {s: manifest(s) for s in stages}, folders(tmp_path, stages))
    for name in (
        "space",
        "held_out",
        "parent_costs",
        "ranking",
        "architecture",
        "predicted_costs",
        "trace",
        "curve",
        "scorecard",
        "job_name",
    ):
        assert getattr(data, name) == getattr(FULL, name), name
    assert [cost.stage for cost in data.stage_costs] == ["profile", "search", "recover", "validate"]
    assert data.digests["Search, output"] == "sha256:out-search"
    assert data.budget is not None and data.budget.min_utilization_percent == 90
    assert store.uri in data.command
    assert "shared/reordered-parent/abc" in data.artifacts["Reordered parent"]
    assert data.conditions["PyTorch of the engine"] == TABLE.conditions.torch_version
    html = render(data)
    assert "sha256:out-validate" in html
    assert "Instruction sets" in html


@pytest.mark.parametrize("done", range(4))
def test_a_job_that_stopped_early_still_has_a_report(
    tmp_path: Path, store: DirectoryStore, done: int
):
    stages = tuple(Stage)[:done]
    data = collect(store, JOB, {s: manifest(s) for s in stages}, folders(tmp_path, stages))
    assert data.scorecard is None
    assert len(data.stage_costs) == done
    assert ("What was kept" in render(data)) == (done >= 2)


def test_a_budget_that_was_met_already_needs_no_documents(tmp_path: Path, store: DirectoryStore):
    (tmp_path / "profile").mkdir()
    made = {Stage.PROFILE: manifest(Stage.PROFILE, Outcome.BUDGET_ALREADY_MET)}
    data = collect(store, JOB, made, {Stage.PROFILE: tmp_path / "profile"})
    html = render(data)
    assert "The parent already fits the budget." in html
    assert "said so" in html


def test_a_damaged_document_is_named(tmp_path: Path, store: DirectoryStore):
    made = folders(tmp_path, (Stage.PROFILE,))
    (made[Stage.PROFILE] / "held_out.json").write_text('{"points": 3}')
    with pytest.raises(DataError, match=r"held_out\.json"):
        collect(store, JOB, {Stage.PROFILE: manifest(Stage.PROFILE)}, made)
