"""The generic stage runner: recorded results, inputs, resumption, and what a fault leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from autocompress.contract.errors import DataError
from autocompress.contract.progress import Silent
from autocompress.contract.stage import Outcome, Stage, Summary
from autocompress.stages import execute as execute_module
from autocompress.stages.context import StageContext
from autocompress.stages.execute import Workplace, execute, finished_stages
from autocompress.store.artifacts import CorruptArtifactError
from autocompress.store.opening import open_store

REVISION = "sha256:" + "0" * 64


@pytest.fixture
def workplace(tmp_path: Path) -> Workplace:
    return Workplace(
        store=open_store(str(tmp_path / "store")),
        work_dir=tmp_path / "work",
        cache_dir=tmp_path / "cache",
        progress=Silent(),
    )


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Stage]:
    made: list[Stage] = []

    def loader(stage: Stage):
        def function(context: StageContext) -> Summary:
            made.append(stage)
            read = sorted(p.read_text() for f in context.inputs.values() for p in f.glob("*.txt"))
            (context.output_dir / f"{stage.value}.txt").write_text("".join(read) + stage.value)
            return Summary(stage=stage, message=f"{stage.value} done")

        return function

    monkeypatch.setattr(execute_module, "load_stage", loader)
    return made


def run(stage: Stage, job, workplace: Workplace):
    return execute(stage, job, workplace, source_revision=REVISION)


def test_stages_read_their_upstream_and_are_not_run_twice(job, workplace, calls):
    for stage in Stage:
        run(stage, job, workplace)
    again = [run(stage, job, workplace) for stage in Stage]
    assert calls == list(Stage)
    assert [m[s].summary.message for s, m in zip(Stage, again, strict=True)] == [
        f"{s.value} done" for s in Stage
    ]
    finished = finished_stages(job, workplace.store, source_revision=REVISION)
    assert list(finished) == list(Stage)


def test_a_stage_without_its_upstream_is_refused(job, workplace, calls):
    with pytest.raises(DataError, match="stage search builds on profile"):
        run(Stage.SEARCH, job, workplace)
    assert calls == []


def test_a_damaged_result_is_made_again(job, workplace, calls, tmp_path):
    run(Stage.PROFILE, job, workplace)
    (damaged,) = (tmp_path / "store").rglob("profile.txt")
    damaged.write_text("x")
    run(Stage.PROFILE, job, workplace)
    assert calls == [Stage.PROFILE, Stage.PROFILE]


def test_damage_that_keeps_the_size_is_found_when_it_is_read(job, workplace, calls, tmp_path):
    run(Stage.PROFILE, job, workplace)
    (damaged,) = (tmp_path / "store").rglob("profile.txt")
    damaged.write_text("PROFILE")
    with pytest.raises(CorruptArtifactError, match=r"profile\.txt is damaged"):
        run(Stage.SEARCH, job, workplace)
    run(Stage.PROFILE, job, workplace)
    run(Stage.SEARCH, job, workplace)
    assert calls == [Stage.PROFILE, Stage.PROFILE, Stage.SEARCH]


def test_a_fault_keeps_the_checkpoints_and_publishes_nothing(job, workplace, monkeypatch):
    seen: list[bool] = []

    def loader(stage: Stage):
        def function(context: StageContext) -> Summary:
            mark = context.checkpoint_dir / "mark"
            seen.append(mark.exists())
            mark.write_text("")
            (context.output_dir / "half").write_text("half")
            if not seen[-1]:
                raise RuntimeError("pulled the plug")
            return Summary(stage=stage)

        return function

    monkeypatch.setattr(execute_module, "load_stage", loader)
    with pytest.raises(RuntimeError):
        run(Stage.PROFILE, job, workplace)
    assert finished_stages(job, workplace.store, source_revision=REVISION) == {}
    run(Stage.PROFILE, job, workplace)
    assert seen == [False, True]
    assert not list(workplace.work_dir.glob("profile-*"))


def test_an_ended_job_stops_the_chain(job, workplace, monkeypatch):
    def loader(stage: Stage):
        return lambda context: Summary(stage=stage, outcome=Outcome.BUDGET_ALREADY_MET)

    monkeypatch.setattr(execute_module, "load_stage", loader)
    run(Stage.PROFILE, job, workplace)
    with pytest.raises(DataError, match="ended at profile with BudgetAlreadyMet"):
        run(Stage.SEARCH, job, workplace)
