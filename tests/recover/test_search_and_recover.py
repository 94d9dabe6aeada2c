"""Search and recover as stages, on a small parent with made-up costs and text of one's own."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from small_job import make_parent, make_text, write_profile
from transformers import AutoModelForCausalLM

import autocompress.models  # noqa: F401  # registers the model class
from autocompress.contract.documents import load
from autocompress.contract.errors import StoppedError
from autocompress.contract.progress import Figure
from autocompress.contract.stage import Manifest, Stage, output_digest
from autocompress.domain.architecture import Architecture
from autocompress.domain.budget import Budget, Limit, Metric
from autocompress.domain.deployment import Precision
from autocompress.domain.job import (
    Job,
    ModelSource,
    RecoverySettings,
    SearchSettings,
    TextSettings,
)
from autocompress.domain.records import RecoveryCurve, SearchTrace
from autocompress.models.checkpoint import open_checkpoint
from autocompress.recover import stage as recover
from autocompress.search import stage as search
from autocompress.stages.context import StageContext
from autocompress.store.directory import DirectoryStore
from autocompress.training import distil


class Recorder:
    """Keeps what a stage says."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.figures: dict[Figure, float] = {}

    def task(self, name: str, total: float) -> None:
        del name, total

    def advance(self, amount: float = 1, note: str = "") -> None:
        del amount, note

    def measure(self, figure: Figure, value: float) -> None:
        self.figures[figure] = value

    def say(self, message: str) -> None:
        self.said.append(message)


class Bench:
    """One store, one parent, one job; stages run on it by hand."""

    def __init__(self, job: Job, root: Path) -> None:
        self.root, self.store = root, DirectoryStore(root / "store")
        make_parent(root / "parent")
        make_text(root / "text")
        limit = Limit(metric=Metric.TIME_PER_OUTPUT_TOKEN, percentile=50, percent_of_parent=90)
        self.job = replace(
            job,
            source=ModelSource(uri=(root / "parent").as_uri()),
            target=replace(job.target, precision=Precision.FP32),
            budget=Budget(limits=(limit,)),
            search=SearchSettings(
                steps=6, step_tokens=64, sequence_tokens=64, calibration_tokens=1024
            ),
            recovery=RecoverySettings(
                tokens=640, step_tokens=64, sequence_tokens=64, checkpoint_every_steps=3
            ),
            text=TextSettings(uri=(root / "text").as_uri()),
        )
        self.space = write_profile(root / "profile", self.job)

    def context(self, output: str, **inputs: str) -> StageContext:
        folder = self.root / output
        folder.mkdir()
        checkpoints = self.root / "work" / "checkpoints"
        checkpoints.mkdir(parents=True, exist_ok=True)
        empty = Manifest(
            kind="search", input_digest="sha256:0", output_digest=output_digest({}), files={}
        )
        return StageContext(
            job=self.job,
            store=self.store,
            inputs={Stage(stage): self.root / name for stage, name in inputs.items()},
            manifests={Stage.SEARCH: empty},
            input_digest="sha256:0",
            source_revision="sha256:" + "1" * 64,
            output_dir=folder,
            checkpoint_dir=checkpoints,
            cache_dir=self.root,
            progress=Recorder(),
        )


@pytest.fixture
def bench(job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # threads starve each other beside other tests
    return Bench(job, tmp_path)


def test_a_seed_decides_the_architecture_and_shared_artifacts_are_found_again(bench: Bench):
    first = bench.context("first", profile="profile")
    summary = search.run(first)
    second = bench.context("second", profile="profile")
    search.run(second)
    names = ("architecture.json", "ranking.json", "predicted_costs.json", "trace.json")
    for name in names:
        assert (bench.root / "first" / name).read_bytes() == (
            bench.root / "second" / name
        ).read_bytes(), name
    assert first.progress.said == []
    assert second.progress.said == ["ranking of the parent: reused", "reordered parent: reused"]
    data = (bench.root / "first" / "architecture.json").read_bytes()
    chosen = load(Architecture, data, name="architecture.json")
    assert chosen in bench.space
    assert summary.figures["parameters"] == chosen.parameters()
    trace = load(SearchTrace, (bench.root / "first" / "trace.json").read_bytes(), name="trace")
    assert len(trace.steps) == 6
    assert 0 < trace.chosen_utilization["TimePerOutputTokenP50"] <= 1


def test_a_stopped_recovery_ends_like_one_that_was_not(bench: Bench, monkeypatch):
    search.run(bench.context("search", profile="profile"))
    recover.run(bench.context("whole", search="search"))
    shutil.rmtree(bench.root / "work")  # as the runner does when it has published
    steps = distil._train_step
    asked: list[int] = []

    def stopping(student, teacher, optimizer, plan, step):
        asked.append(step)
        if step == 4:
            import os
            import signal

            os.kill(os.getpid(), signal.SIGTERM)
        return steps(student, teacher, optimizer, plan, step)

    monkeypatch.setattr(distil, "_train_step", stopping)
    with pytest.raises(StoppedError, match="stopped after step 5 of 10"):
        recover.run(bench.context("half", search="search"))
    assert list((bench.root / "half").iterdir()) == []
    monkeypatch.setattr(distil, "_train_step", steps)
    resumed = bench.context("resumed", search="search")
    recover.run(resumed)
    assert resumed.progress.said == ["going on from the checkpoint after step 5 of 10"]
    whole, again = (bench.root / name for name in ("whole", "resumed"))
    assert (whole / "curve.json").read_bytes() == (again / "curve.json").read_bytes()
    for path in (whole / "model").iterdir():
        assert path.read_bytes() == (again / "model" / path.name).read_bytes(), path.name


def test_the_recovered_model_is_what_was_chosen_and_loads_anywhere(bench: Bench):
    search.run(bench.context("search", profile="profile"))
    context = bench.context("out", search="search")
    recover.run(context)
    assert context.progress.figures[Figure.TRAINED_TOKENS] == 640
    assert context.progress.figures[Figure.LEARNING_RATE] == pytest.approx(3e-5)
    data = (bench.root / "search" / "architecture.json").read_bytes()
    chosen = load(Architecture, data, name="architecture.json")
    folder = bench.root / "out" / "model"
    opened = open_checkpoint(folder)
    assert opened.architecture == chosen
    loaded = AutoModelForCausalLM.from_pretrained(folder)
    assert sum(p.numel() for p in loaded.parameters()) == chosen.parameters()
    curve = load(RecoveryCurve, (bench.root / "out" / "curve.json").read_bytes(), name="curve")
    assert curve.tokens == 640
    assert curve.points[0].validation_loss is not None
    assert (folder / "tokenizer.json").is_file()
