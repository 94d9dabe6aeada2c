"""What a runner is told of finished stages: read from the store, alike whenever it is read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autocompress.contract.documents import dump
from autocompress.contract.progress import Silent
from autocompress.contract.stage import Outcome, Stage, Summary, output_digest
from autocompress.contract.termination import CostReport, LimitReport
from autocompress.domain.architecture import Architecture, Attention
from autocompress.domain.budget import Budget, Limit, Metric
from autocompress.domain.costs import MeasuredCosts, Percentiles, PredictedCosts, judge
from autocompress.domain.records import Quality, Scorecard, TaskScore
from autocompress.stages import execute as execute_module
from autocompress.stages.context import StageContext
from autocompress.stages.execute import Workplace, execute
from autocompress.stages.reporting import stage_report
from autocompress.stages.tally import ENGINE_STARTS
from autocompress.store import artifacts
from autocompress.store.opening import open_store

REVISION = "sha256:" + "0" * 64
MODEL = Architecture(
    hidden_size=8,
    vocab_size=16,
    tied_embeddings=True,
    blocks=(Attention(query_heads=2, kv_heads=1, head_dim=4),),
)
USER = "team.job.0a1b"


def spread(value: float) -> Percentiles:
    return Percentiles(mean=value, p50=value, p90=value, p95=value, p99=value)


def costs(kind: type, *, each: float, memory: int, speed: float):
    return kind(
        time_to_first_token=spread(each * 4),
        time_per_output_token=spread(each),
        end_to_end_latency=spread(each * 20),
        output_tokens_per_second=speed,
        memory_bytes=memory,
    )


PARENT = costs(MeasuredCosts, each=0.040, memory=1000, speed=20.0)
PREDICTED = costs(PredictedCosts, each=0.029, memory=700, speed=30.0)
MEASURED = costs(MeasuredCosts, each=0.030, memory=720, speed=29.5)
BUDGET = Budget(
    limits=(
        Limit(metric=Metric.TIME_PER_OUTPUT_TOKEN, percentile=95, percent_of_parent=80),
        Limit(metric=Metric.MEMORY, bound=800),
        Limit(metric=Metric.OUTPUT_THROUGHPUT, bound=25.0),
    )
)
TASK = TaskScore(
    name="piqa",
    metric="acc",
    items=100,
    chance=0.5,
    parent=0.67,
    parent_error=0.01,
    pruned=0.5,
    pruned_error=0.02,
    compressed=0.655,
    compressed_error=0.011,
)
QUALITY = Quality(
    suite="default",
    tasks=(TASK,),
    texts=(),
    parent_mean=0.67,
    pruned_mean=0.5,
    compressed_mean=0.655,
    retention_percent=97.7611940,
    retention_error_percent=1.0,
    min_retention_percent=90,
    met=True,
)


def card(job) -> Scorecard:
    limits = judge(job.budget, PREDICTED, MEASURED, PARENT)
    return Scorecard(
        job=job.name,
        source_uri=job.source.uri,
        source_revision=REVISION,
        parent=MODEL,
        compressed=MODEL,
        parent_parameters=MODEL.parameters(),
        compressed_parameters=MODEL.parameters(),
        precision="BF16",
        device="a device",
        engine="VLLM",
        engine_version="0.32.0",
        prompt_tokens=32,
        output_tokens=8,
        concurrency=1,
        requests=24,
        request_set_digest="sha256:0",
        export_format="plain",
        parent_costs=PARENT,
        compressed_costs=MEASURED,
        predicted_costs=PREDICTED,
        limits=limits,
        budget_met=all(limit.met for limit in limits),
        min_utilization_percent=90,
        quality=QUALITY,
        model_digest="sha256:" + "b" * 64,
    )


class Stages:
    """Stage functions that leave the documents of real ones."""

    def __init__(self, job, root: Path) -> None:
        self.job, self.root = job, root
        self.profile_outcome = Outcome.DONE
        self.ran: list[Stage] = []

    def __call__(self, stage: Stage):
        self.ran.append(stage)
        return getattr(self, stage.value)

    def profile(self, context: StageContext) -> Summary:
        ENGINE_STARTS.add_one()
        ENGINE_STARTS.add_one()
        (context.output_dir / "parent_costs.json").write_bytes(dump(PARENT))
        return Summary(stage=Stage.PROFILE, outcome=self.profile_outcome, message="measured")

    def search(self, context: StageContext) -> Summary:
        (context.output_dir / "predicted_costs.json").write_bytes(dump(PREDICTED))
        reference = self.publish(context, "shared/reordered-parent/" + "c" * 64)
        (context.output_dir / "reordered.json").write_bytes(dump(reference))
        return Summary(stage=Stage.SEARCH, figures={"tokens": 2048})

    def recover(self, context: StageContext) -> Summary:
        (context.output_dir / "curve.json").write_text("{}")
        return Summary(stage=Stage.RECOVER, figures={"tokens": 4096})

    def validate(self, context: StageContext) -> Summary:
        (context.output_dir / "scorecard.json").write_bytes(dump(card(self.job)))
        reference = self.publish(context, "models/" + "b" * 64)
        (context.output_dir / "model.json").write_bytes(dump(reference))
        return Summary(stage=Stage.VALIDATE, message="all is met", figures={"requests": 24})

    def publish(self, context: StageContext, prefix: str) -> artifacts.Reference:
        folder = self.root / "made"
        folder.mkdir(exist_ok=True)
        (folder / "model.safetensors").write_bytes(b"weights")
        manifest = artifacts.publish(
            context.store, prefix, folder, kind="x", input_digest="sha256:1"
        )
        return artifacts.reference(prefix, manifest)


@pytest.fixture
def stages(job, tmp_path, monkeypatch) -> Stages:
    made = Stages(replace(job, budget=BUDGET), tmp_path)
    monkeypatch.setattr(execute_module, "load_stage", made)
    return made


@pytest.fixture
def workplace(tmp_path) -> Workplace:
    return Workplace(
        store=open_store((tmp_path / "store").as_uri()),
        work_dir=tmp_path / "work",
        cache_dir=tmp_path / "cache",
        progress=Silent(),
        user=USER,
    )


def report(stage: Stage, stages: Stages, workplace: Workplace):
    ticks = iter((0.0, 90.0))
    finished = execute(
        stage,
        stages.job,
        workplace,
        source_revision=REVISION,
        clock=lambda: next(ticks),
    )
    return stage_report(stage, stages.job, workplace.store, finished, source_revision=REVISION)


def test_every_stage_reports_the_same_when_it_is_found_done(stages, workplace):
    first = [report(stage, stages, workplace) for stage in Stage]
    assert stages.ran == list(Stage)
    assert [report(stage, stages, workplace) for stage in Stage] == first
    assert stages.ran == list(Stage)
    assert [made.stage for made in first] == ["profile", "search", "recover", "validate"]
    for made, stage in zip(first, Stage, strict=True):
        hexadecimal = made.input_digest.removeprefix("sha256:")
        assert made.source_revision == REVISION
        assert made.manifest_uri == (
            f"{workplace.store.uri}/stages/{stage.value}/{hexadecimal}/manifest.json"
        )
        assert workplace.store.get(made.manifest_uri.removeprefix(workplace.store.uri + "/"))


def test_limits_are_told_as_far_as_they_are_known(stages, workplace):
    profile, search, recover, validate = (report(stage, stages, workplace) for stage in Stage)
    time, memory, speed = (
        LimitReport(name="TimePerOutputTokenP95", unit="ms", limit=32.0),
        LimitReport(name="Memory", unit="bytes", limit=800.0),
        LimitReport(name="OutputThroughput", unit="tokens/s", limit=25.0),
    )
    assert profile.budget == (time, memory, speed)
    expected = (
        replace(time, predicted=29.0),
        replace(memory, predicted=700.0),
        replace(speed, predicted=30.0),
    )
    assert search.budget == expected
    assert recover.budget == ()
    assert validate.budget == (
        replace(expected[0], measured=30.0, met=True, utilization_percent=93.75),
        replace(expected[1], measured=720.0, met=True, utilization_percent=90.0),
        replace(expected[2], measured=29.5, met=True, utilization_percent=84.7458),
    )


def test_a_parent_that_fits_is_told_with_its_own_figures(stages, workplace):
    stages.profile_outcome = Outcome.BUDGET_ALREADY_MET
    stages.job = replace(stages.job, budget=Budget(limits=(replace(BUDGET.limits[1], bound=2000),)))
    made = report(Stage.PROFILE, stages, workplace)
    assert made.outcome is Outcome.BUDGET_ALREADY_MET
    assert made.budget == (
        LimitReport(
            name="Memory",
            unit="bytes",
            limit=2000.0,
            measured=1000.0,
            met=True,
            utilization_percent=50.0,
        ),
    )


def test_quality_and_model_come_from_scorecard_and_store(stages, workplace):
    validate = [report(stage, stages, workplace) for stage in Stage][-1]
    assert validate.quality.retention_percent == 97.7612
    assert (validate.quality.baseline, validate.quality.measured) == (0.67, 0.655)
    (task,) = validate.quality.tasks
    assert (task.name, task.baseline, task.measured, task.standard_error) == (
        "piqa",
        0.67,
        0.655,
        0.011,
    )
    found = artifacts.find(workplace.store, "models/" + "b" * 64, input_digest="sha256:1")
    assert validate.model.digest == found.output_digest == output_digest(found.files)
    root = workplace.store.uri + "/"
    assert workplace.store.get(f"{validate.model.uri.removeprefix(root)}/model.safetensors")
    assert workplace.store.get(validate.model.manifest_uri.removeprefix(root))


def test_costs_are_what_was_counted(stages, workplace):
    profile, search, recover, validate = (report(stage, stages, workplace) for stage in Stage)
    written = len(dump(PARENT))
    assert profile.cost == CostReport(
        wall_seconds=90.0,
        device_hours=0.025,
        tokens=0,
        engine_starts=2,
        bytes_moved=written,
    )
    assert (search.cost.tokens, search.cost.engine_starts) == (2048, 0)
    assert (recover.cost.tokens, validate.cost.tokens) == (4096, 0)
    assert search.cost.bytes_moved > len(dump(PREDICTED)) + len(b"weights")


def test_device_hours_are_those_of_all_accelerators_that_were_held(stages, workplace):
    target = stages.job.target
    stages.job = replace(
        stages.job, target=replace(target, accelerator=replace(target.accelerator, count=4))
    )
    made = report(Stage.PROFILE, stages, replace(workplace, nodes=2))
    assert made.cost.device_hours == pytest.approx(90 / 3600 * 8)


def test_what_was_not_counted_is_not_told(stages, workplace):
    report(Stage.PROFILE, stages, workplace)
    (manifest,) = (workplace.store.root / "stages").rglob("manifest.json")
    text = manifest.read_text()
    manifest.unlink()
    manifest.write_text(text[: text.index(' "effort"')] + text[text.index(' "files"') :])
    cost = report(Stage.PROFILE, stages, workplace).cost
    assert (cost.wall_seconds, cost.engine_starts, cost.bytes_moved) == (90.0, None, None)


def test_what_an_object_uses_is_recorded_before_and_after(stages, workplace, monkeypatch):
    seen = []

    def recover(context: StageContext) -> Summary:
        seen.append(record(workplace))
        return Stages.recover(stages, context)

    monkeypatch.setattr(stages, "recover", recover)
    digests = {stage: report(stage, stages, workplace).input_digest[7:] for stage in Stage}
    during = {f"stages/{s.value}/{digests[s]}" for s in Stage if s is not Stage.VALIDATE}
    during |= {f"checkpoints/{digests[s]}" for s in Stage if s is not Stage.VALIDATE}
    during |= {"shared/reordered-parent/" + "c" * 64}
    assert seen == [during]
    assert record(workplace) == during | {
        f"stages/validate/{digests[Stage.VALIDATE]}",
        f"checkpoints/{digests[Stage.VALIDATE]}",
        "models/" + "b" * 64,
    }
    other = replace(workplace, user="team.other.0c")
    report(Stage.VALIDATE, stages, other)
    assert record(other) == {p for p in record(workplace) if not p.startswith("checkpoints")}


def record(workplace: Workplace) -> set[str]:
    import json

    return set(json.loads(workplace.store.get(f"users/{workplace.user}.json"))["prefixes"])
