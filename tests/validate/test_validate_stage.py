"""The whole stage with tiny models and, for the engine, a server that only streams."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer

import autocompress.validate.stage as stage_module
from autocompress.contract import documents
from autocompress.contract.errors import SpecError
from autocompress.contract.progress import Silent
from autocompress.contract.stage import Manifest, Outcome, Stage, Summary, output_digest
from autocompress.domain.architecture import Mlp
from autocompress.domain.budget import Budget, Limit, Metric
from autocompress.domain.costs import MeasuredCosts, Percentiles, PredictedCosts
from autocompress.domain.deployment import (
    Accelerator,
    AcceleratorKind,
    Engine,
    EngineName,
    Precision,
    Target,
    Workload,
)
from autocompress.domain.job import Job, ModelSource, QualitySettings, TextSettings
from autocompress.domain.records import Scorecard
from autocompress.evaluation.bits import WINDOW_TOKENS, bits_per_byte, text_spans
from autocompress.models import checkpoint
from autocompress.sources.convert import ORIGIN_FILE
from autocompress.stages.context import StageContext
from autocompress.store import artifacts
from autocompress.store.directory import DirectoryStore
from autocompress.testing.byte_tokenizer import save_byte_tokenizer
from autocompress.testing.completions_server import Script, completions_server
from autocompress.testing.models import random_model, small_parent
from autocompress.text.corpus import held_out, load_corpus
from autocompress.weights.slicing import slice_reordered

pytestmark = pytest.mark.slow  # lm-eval takes ten seconds to import

PARENT = small_parent()
COMPRESSED = replace(
    PARENT, blocks=(PARENT.blocks[0], Mlp(intermediate_size=8), *PARENT.blocks[2:])
)
LATENCY = Limit(metric=Metric.TIME_PER_OUTPUT_TOKEN, percentile=50, percent_of_parent=75)


class Told(Silent):
    """Keeps what was said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, message: str) -> None:
        self.lines.append(message)


class FakeServer:
    def __init__(self, base_url: str, memory: int) -> None:
        self.base_url, self.model_name, self._memory = base_url, "model", memory

    def wait_until_ready(self) -> None: ...

    def peak_memory_bytes(self) -> int:
        return self._memory

    def reset_peak(self) -> None: ...


def job(tmp_path: Path, *limits: Limit, min_retention_percent: int = 1) -> Job:
    text = tmp_path / "text.txt"
    if not text.exists():
        text.write_text(
            "".join(f"Line {i} of a text, {i * i} words long.\n" for i in range(20_000))
        )
    return Job(
        name="tiny",
        source=ModelSource(uri="package:tiny"),
        target=Target(
            accelerator=Accelerator(kind=AcceleratorKind.CPU),
            engine=Engine(name=EngineName.VLLM, version="0.32.0"),
            precision=Precision.FP32,
        ),
        workload=Workload(
            prompt_tokens=8, output_tokens=4, concurrency=2, context_tokens=16, max_sequences=2
        ),
        budget=Budget(limits=limits),
        quality=QualitySettings(
            suite="smoke", limit=2, min_retention_percent=min_retention_percent
        ),
        text=TextSettings(uri=str(text)),
    )


@pytest.fixture
def models(tmp_path: Path) -> tuple[Path, Path]:
    parent = tmp_path / "parent"
    checkpoint.save(random_model(PARENT, seed=1), parent, None)
    save_byte_tokenizer(parent)
    (parent / "LICENSE").write_text("Do as you like.")
    origin = {"distribution": "tiny", "version": "1", "file": "tiny.gguf", "note": "n"}
    (parent / ORIGIN_FILE).write_text(json.dumps(origin))
    compressed = tmp_path / "inputs" / "recover" / "model"
    checkpoint.save(random_model(COMPRESSED, seed=1), compressed, parent)
    (compressed / "LICENSE").unlink(missing_ok=True)
    return parent, compressed


def context(tmp_path: Path, what: Job, told: Told, run: str = "1") -> StageContext:
    flat = Percentiles(mean=0.01, p50=0.01, p90=0.01, p95=0.01, p99=0.01)
    for stage, name, kind in (
        (Stage.SEARCH, "predicted_costs.json", PredictedCosts),
        (Stage.PROFILE, "parent_costs.json", MeasuredCosts),
    ):
        folder = tmp_path / "inputs" / stage.value
        folder.mkdir(parents=True, exist_ok=True)
        costs = kind(
            time_to_first_token=flat,
            time_per_output_token=flat,
            end_to_end_latency=flat,
            output_tokens_per_second=100.0,
            memory_bytes=1000,
        )
        (folder / name).write_bytes(documents.dump(costs))
    store = DirectoryStore(tmp_path / "store")
    # A ranking that changed nothing: the reordered parent is the parent.
    reordered = artifacts.publish(
        store,
        "shared/reordered-parent/key",
        tmp_path / "parent",
        kind="reordered-parent",
        input_digest="key",
    )
    search = tmp_path / "inputs" / Stage.SEARCH.value
    where = artifacts.reference("shared/reordered-parent/key", reordered)
    (search / "reordered.json").write_bytes(documents.dump(where))
    (search / "architecture.json").write_bytes(documents.dump(COMPRESSED))
    output = tmp_path / f"run{run}" / "output"
    output.mkdir(parents=True)
    manifest = Manifest(kind="x", input_digest="i", output_digest=output_digest({}), files={})
    return StageContext(
        job=what,
        store=store,
        inputs={
            stage: tmp_path / "inputs" / stage.value
            for stage in (Stage.PROFILE, Stage.SEARCH, Stage.RECOVER)
        },
        manifests={Stage.PROFILE: manifest, Stage.SEARCH: manifest},
        input_digest="sha256:in",
        source_revision="rev",
        output_dir=output,
        checkpoint_dir=tmp_path,
        cache_dir=tmp_path,
        progress=told,
    )


@pytest.fixture
def served(models: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The engine: it streams slowly for the parent, quickly for everything else."""
    log: list[str] = []

    @contextmanager
    def serve(
        model_dir: Path, *, target: Target, workload: Workload, log_path: Path
    ) -> Iterator[FakeServer]:
        del target, workload, log_path
        name = "parent" if model_dir == models[0] else "compressed"
        script = Script(token_seconds=0.04 if name == "parent" else 0.004)
        with completions_server(script, log, name) as url:
            yield FakeServer(url, 2000 if name == "parent" else 1000)

    monkeypatch.setattr(stage_module, "fetch_parent", lambda source, cache, progress: models[0])
    monkeypatch.setattr(stage_module, "serve", serve)
    return log


def run(tmp_path: Path, what: Job, told: Told, number: str = "1") -> tuple[Summary, Path]:
    given = context(tmp_path, what, told, number)
    return stage_module.run(given), given.output_dir


def test_a_met_verdict_publishes_the_model(
    tmp_path: Path, models: tuple[Path, Path], served: list[str]
) -> None:
    memory = Limit(metric=Metric.MEMORY, percent_of_parent=60)
    told = Told()
    summary, output = run(tmp_path, job(tmp_path, LATENCY, memory), told)
    assert summary.outcome is Outcome.DONE
    card = documents.load(Scorecard, (output / "scorecard.json").read_bytes(), name="card")
    assert card.budget_met
    assert card.quality.met
    assert [limit.name for limit in card.limits] == ["TimePerOutputTokenP50", "Memory"]
    assert card.limits[1].bound == 1200
    assert card.requests == 24
    assert card.export_format == "autocompress"
    assert {task.name for task in card.quality.tasks} == {
        "piqa",
        "openbookqa",
        "winogrande",
        "humaneval_choice",
    }
    text = card.quality.texts[0]
    assert text.bytes > 1000
    assert text.tokens > 100
    # The pruned model is the parent's own weights, cut: neither of the two that were served.
    cut = tmp_path / "cut"
    slice_reordered(models[0], COMPRESSED, cut)
    corpus = load_corpus(job(tmp_path, LATENCY).text)
    documents_read = [d.text for d in held_out(corpus, corpus.kinds[0], limit_bytes=2_000)]
    spans = text_spans(
        AutoTokenizer.from_pretrained(cut), documents_read, window_tokens=WINDOW_TOKENS
    )
    alone = bits_per_byte(
        checkpoint.load(cut, torch.float32), spans, batch_tokens=256, on_done=lambda _: None
    )
    assert text.pruned == pytest.approx(alone, rel=1e-4)
    assert len({text.parent, text.pruned, text.compressed}) == 3
    assert any("de-quantised from tiny.gguf" in note for note in card.notes)

    # In turn: neither model is driven to its end before the other begins.
    changes = sum(a != b for a, b in itertools.pairwise(served))
    assert changes >= 2 * 4 - 1
    assert served.count("parent") == served.count("compressed")

    reference = documents.load(
        artifacts.Reference, (output / "model.json").read_bytes(), name="model"
    )
    assert reference.prefix == f"models/{card.model_digest.removeprefix('sha256:')}"
    assert reference.output_digest == card.model_digest
    store = DirectoryStore(tmp_path / "store")
    manifest = artifacts.resolve(store, reference)
    assert manifest is not None
    published = tmp_path / "published"
    artifacts.fetch(store, reference.prefix, manifest, published)
    assert (published / "LICENSE").read_text() == "Do as you like."
    readme = (published / "README.md").read_text()
    assert "Memory at most 60 % of the parent's" in readme
    assert "de-quantised" in readme
    assert "8 neurons (96 neurons)" in readme
    model = checkpoint.load(published, torch.float32)
    assert model.architecture == COMPRESSED
    assert len(AutoTokenizer.from_pretrained(published)) == 256
    # What came in stays as it was: the files may be a store's own.
    assert not (models[1] / "README.md").exists()

    again, _ = run(tmp_path, job(tmp_path, LATENCY), told, "2")
    assert again.figures["model_digest"] != ""
    assert any("reused" in line for line in told.lines)


def test_the_same_job_gives_the_same_model_files(tmp_path: Path, served: list[str]) -> None:
    digests = {
        run(tmp_path, job(tmp_path, LATENCY), Told(), number)[0].figures["model_digest"]
        for number in ("1", "2")
    }
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("limit", "retention", "outcome"),
    [
        (Limit(metric=Metric.MEMORY, bound=999.0), 1, Outcome.BUDGET_NOT_MET),
        (LATENCY, 10_000, Outcome.QUALITY_NOT_MET),
    ],
)
def test_a_missed_verdict_publishes_nothing(
    tmp_path: Path, served: list[str], limit: Limit, retention: int, outcome: Outcome
) -> None:
    what = job(tmp_path, limit, min_retention_percent=retention)
    summary, output = run(tmp_path, what, Told())
    assert summary.outcome is outcome
    assert "Nothing was published" in summary.message
    assert (output / "scorecard.json").exists()
    assert not (output / "model.json").exists()
    assert not list(DirectoryStore(tmp_path / "store").keys("models/"))


def test_one_after_the_other_where_memory_is_short(
    tmp_path: Path, served: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage_module, "available_memory_bytes", lambda: 1 << 30)
    told = Told()
    summary, output = run(tmp_path, job(tmp_path, LATENCY), told)
    assert summary.outcome is Outcome.DONE
    assert sum(a != b for a, b in itertools.pairwise(served)) == 1
    card = documents.load(Scorecard, (output / "scorecard.json").read_bytes(), name="card")
    assert any("one after the other" in note for note in card.notes)


def test_an_unknown_suite_stops_before_any_work(tmp_path: Path, served: list[str]) -> None:
    what = job(tmp_path, LATENCY)
    what = replace(what, quality=replace(what.quality, suite="mmlu"))
    with pytest.raises(SpecError, match="mmlu"):
        run(tmp_path, what, Told())
    assert served == []
