"""The local runner: order, resumption, retries, and the exit code that it hands on."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from autocompress.contract.stage import UPSTREAM, Stage, Summary, input_digest
from autocompress.local import run_stages
from autocompress.stages.execute import finished_stages, stage_prefix
from autocompress.store import artifacts
from autocompress.store.opening import open_store

REVISION = "sha256:" + "0" * 64


@pytest.fixture
def store(tmp_path: Path):
    return open_store(str(tmp_path / "store"))


def publish(stage: Stage, job, store, tmp_path: Path) -> None:
    done = finished_stages(job, store, source_revision=REVISION)
    digest = input_digest(
        stage,
        job,
        source_revision=REVISION,
        upstream={name: done[name].output_digest for name in UPSTREAM[stage]},
    )
    folder = tmp_path / stage.value
    folder.mkdir(exist_ok=True)
    (folder / "x").write_text(stage.value)
    artifacts.publish(
        store,
        stage_prefix(stage, digest),
        folder,
        kind=stage.value,
        input_digest=digest,
        summary=Summary(stage=stage),
    )


def exiting(code: int) -> list[str]:
    return [sys.executable, "-c", f"raise SystemExit({code})"]


def test_stages_run_in_order_and_finished_ones_are_recognised(job, store, tmp_path):
    publish(Stage.PROFILE, job, store, tmp_path)
    asked: list[Stage] = []
    recognised: list[Stage] = []

    def command(stage: Stage) -> list[str]:
        asked.append(stage)
        publish(stage, job, store, tmp_path)
        return exiting(0)

    outcome = run_stages(
        job,
        store,
        source_revision=REVISION,
        command=command,
        recognised=lambda stage, manifest: recognised.append(stage),
    )
    assert recognised == [Stage.PROFILE]
    assert asked == [Stage.SEARCH, Stage.RECOVER, Stage.VALIDATE]
    assert outcome.exit_code == 0
    assert list(outcome.finished) == list(Stage)


@pytest.mark.parametrize(
    ("code", "tries", "handed_on"),
    [(64, 1, 64), (78, 1, 78), (70, 1, 70), (69, 3, 69), (75, 3, 75), (0, 1, 70)],
)
def test_faults_end_the_run_and_only_passing_ones_are_tried_again(
    job, store, code, tries, handed_on
):
    asked: list[Stage] = []

    def command(stage: Stage) -> list[str]:
        asked.append(stage)
        return exiting(code)

    outcome = run_stages(
        job,
        store,
        source_revision=REVISION,
        command=command,
        recognised=lambda stage, manifest: None,
    )
    assert asked == [Stage.PROFILE] * tries
    assert outcome.exit_code == handed_on


def test_a_child_that_was_killed_reads_as_in_a_shell(job, store):
    outcome = run_stages(
        job,
        store,
        source_revision=REVISION,
        command=lambda stage: [sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"],
        recognised=lambda stage, manifest: None,
    )
    assert outcome.exit_code == 137


def test_a_damaged_result_that_a_later_stage_finds_is_made_again(job, store, tmp_path):
    publish(Stage.PROFILE, job, store, tmp_path)
    (damaged,) = (tmp_path / "store").rglob("x")
    damaged.unlink()
    damaged.write_text("PROFILE")
    asked: list[Stage] = []

    def command(stage: Stage) -> list[str]:
        asked.append(stage)
        done = finished_stages(job, store, source_revision=REVISION)
        for name in UPSTREAM[stage]:
            prefix = stage_prefix(name, done[name].input_digest)
            try:
                artifacts.fetch(store, prefix, done[name], tmp_path / "inputs" / name.value)
            except artifacts.CorruptArtifactError as error:
                return exiting(error.exit_code)
        publish(stage, job, store, tmp_path)
        return exiting(0)

    outcome = run_stages(
        job, store, source_revision=REVISION, command=command, recognised=lambda *_: None
    )
    assert outcome.exit_code == 0
    assert asked == [
        Stage.SEARCH,
        Stage.PROFILE,
        Stage.SEARCH,
        Stage.RECOVER,
        Stage.VALIDATE,
    ]
