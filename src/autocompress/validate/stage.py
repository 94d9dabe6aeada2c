"""The validate stage: serve, drive, ask, judge; publish the model when all is met."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import TypeVar

from autocompress.contract import documents
from autocompress.contract.stage import Outcome, Stage, Summary
from autocompress.domain.costs import MeasuredCosts, PredictedCosts
from autocompress.domain.records import Quality
from autocompress.engines.vllm.conditions import read_conditions
from autocompress.engines.vllm.server import serve
from autocompress.evaluation.quality import arithmetic, device_of, measure, questions
from autocompress.evaluation.requests import request_set
from autocompress.evaluation.results import compare
from autocompress.evaluation.scorecard import Subject, scorecard, summary
from autocompress.evaluation.suites import Suite, find_suite
from autocompress.evaluation.suites.benchmarks import data_folder
from autocompress.models.checkpoint import read_architecture
from autocompress.sources.fetch import fetch_parent
from autocompress.stages.context import StageContext
from autocompress.store import artifacts
from autocompress.text.corpus import load_corpus
from autocompress.text.installed import boolq_scored
from autocompress.validate.model_card import model_card
from autocompress.validate.model_folder import assemble, folder_digest, format_of
from autocompress.validate.origin import Origin, licence_files, read_origin
from autocompress.validate.parent_quality import parent_quality
from autocompress.validate.serving import available_memory_bytes, fit_together, measure_both
from autocompress.weights.pruned import slice_chosen

#: Requests that each model answers; at least so many per client of the workload.
_REQUESTS = 24
_REQUESTS_PER_CLIENT = 4
_WARMUP_REQUESTS = 2

#: Not the profile's: a validation that repeats its requests would confirm its accidents.
_REQUEST_SEED = 20_251

Document = TypeVar("Document")


def run(context: StageContext) -> Summary:
    """Measure the compressed model against its parent; publish it if budget and quality are met.

    Leaves ``scorecard.json``, and ``model.json`` (a reference to the published model) when met.

    Raises:
        SpecError: the job names an unknown suite.
        DataError: a model, benchmark data or text cannot be used.
        EngineError: the engine does not start, or fails under the load.
    """
    job, progress = context.job, context.progress
    suite = find_suite(job.quality.suite, job.quality.limit)
    parent_dir = fetch_parent(job.source, context.cache_dir, progress)
    with tempfile.TemporaryDirectory(dir=context.output_dir.parent, prefix="model-") as scratch:
        checkpoint_dir = context.inputs[Stage.RECOVER] / "model"
        parent, _ = read_architecture(parent_dir)
        compressed, _ = read_architecture(checkpoint_dir)
        model_dir = Path(scratch) / "model"
        export_format = format_of(checkpoint_dir)
        origin = read_origin(parent_dir)
        licences = licence_files(parent_dir, origin)
        assemble(checkpoint_dir, licences, model_dir)
        card = model_card(
            job,
            parent=parent,
            compressed=compressed,
            source_revision=context.source_revision,
            export_format=export_format,
            parent_was_quantised=origin is not None,
            licence_files=tuple(path.name for path in licences),
        )
        (model_dir / "README.md").write_text(card, encoding="utf-8")

        together = fit_together(
            (parent, compressed), job.target, job.workload, available_bytes=available_memory_bytes
        )
        if not together:
            progress.say("memory does not hold both engines: one model is driven after the other")
        served_parent, served_compressed = measure_both(
            (parent_dir, model_dir),
            target=job.target,
            workload=job.workload,
            request_set=request_set(
                job.workload,
                vocabulary_size=parent.vocab_size,
                requests=max(_REQUESTS, _REQUESTS_PER_CLIENT * job.workload.concurrency),
                warmup=max(_WARMUP_REQUESTS, job.workload.concurrency),
                seed=_REQUEST_SEED,
            ),
            together=together,
            serve=serve,
            log_dir=Path(scratch),
            progress=progress,
        )
        pruned_dir = Path(scratch) / "pruned"
        slice_chosen(
            context.store,
            context.manifests[Stage.SEARCH],
            context.inputs[Stage.SEARCH],
            pruned_dir,
        )
        conditions = read_conditions(job.target, job.workload)
        result = scorecard(
            job,
            Subject(
                source_revision=context.source_revision,
                parent=parent,
                compressed=compressed,
                export_format=export_format,
                model_digest=folder_digest(model_dir),
            ),
            device=conditions.device,
            engine_version=conditions.engine_version,
            parent=served_parent,
            compressed=served_compressed,
            predicted=_read(context, Stage.SEARCH, "predicted_costs.json", PredictedCosts),
            profiled_parent=_read(context, Stage.PROFILE, "parent_costs.json", MeasuredCosts),
            quality=_quality(context, suite, parent_dir, pruned_dir, model_dir),
            notes=_notes(origin, together=together),
        )
        verdict = summary(result)
        (context.output_dir / "scorecard.json").write_bytes(documents.dump(result))
        if verdict.outcome is Outcome.DONE:
            _publish(context, model_dir, result.model_digest)
        return verdict


def _quality(
    context: StageContext, suite: Suite, parent_dir: Path, pruned_dir: Path, model_dir: Path
) -> Quality:
    job, progress = context.job, context.progress
    asked = questions(
        suite,
        benchmark_folder=data_folder(),
        corpus=load_corpus(job.text),
        is_scored=boolq_scored,
    )
    element = arithmetic(job.target.precision, device_of(job.target))
    ask = partial(measure, asked=asked, target=job.target, progress=progress)
    return compare(
        parent_quality(
            context.store,
            source_revision=context.source_revision,
            questions_digest=asked.digest,
            conditions=(job.target.precision.value, str(element)),
            measure=partial(ask, parent_dir, name="parent"),
            progress=progress,
        ),
        ask(pruned_dir, name="pruned model"),
        ask(model_dir, name="compressed model"),
        min_retention_percent=job.quality.min_retention_percent,
    )


def _publish(context: StageContext, model_dir: Path, model_digest: str) -> None:
    prefix = f"models/{model_digest.removeprefix('sha256:')}"
    manifest = artifacts.publish(
        context.store, prefix, model_dir, kind="model", input_digest=model_digest
    )
    reference = artifacts.reference(prefix, manifest)
    (context.output_dir / "model.json").write_bytes(documents.dump(reference))
    context.progress.say(f"published {context.store.uri.rstrip('/')}/{prefix}")


def _notes(origin: Origin | None, *, together: bool) -> tuple[str, ...]:
    notes = []
    if origin is not None:
        notes.append(
            f"The parent's weights were de-quantised from {origin.file} (package "
            f"{origin.distribution} {origin.version}); its scores are those of these weights, not "
            "of the ones originally published."
        )
    if not together:
        notes.append(
            "Parent and compressed model were served one after the other, not in turn: a machine "
            "that drifted in between shifts their ratio."
        )
    return tuple(notes)


def _read(context: StageContext, stage: Stage, name: str, kind: type[Document]) -> Document:
    path = context.inputs[stage] / name
    return documents.load(kind, path.read_bytes(), name=f"{stage.value}: {name}")
