"""The recover stage: slice the chosen architecture out of the reordered parent, and distil it."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path

import torch
from transformers import AutoTokenizer

from autocompress.contract.documents import dump
from autocompress.contract.stage import Stage, Summary
from autocompress.domain.architecture import Architecture
from autocompress.domain.job import RecoverySettings
from autocompress.domain.records import RecoveryCurve, RecoveryPoint
from autocompress.engines.capabilities import capabilities
from autocompress.families.formats import ExportFormat
from autocompress.models import checkpoint as models
from autocompress.models.heterogeneous import HeterogeneousForCausalLM
from autocompress.sources.fetch import fetch_parent
from autocompress.stages.context import StageContext
from autocompress.stages.seats import read_seat
from autocompress.text.corpus import load_corpus
from autocompress.text.documents import Split
from autocompress.text.windows import windows
from autocompress.training import runtime
from autocompress.training.checkpoint import newest_folder
from autocompress.training.distil import DistillationPlan, distil
from autocompress.training.figures import WithFigures
from autocompress.training.parallel import Peers, StepShape, joined
from autocompress.training.stopping import stop_on_signal
from autocompress.weights.export import export
from autocompress.weights.pruned import read_chosen, slice_chosen

#: Tokens of held-out text that the validation loss is read on: at most so many, and at most this
#: share of those trained on, so that a short recovery is not spent on reading its own loss.
VALIDATION_TOKENS = 4096
VALIDATION_SHARE = 0.1
_CHECKPOINTS = "training"


def run(context: StageContext) -> Summary:
    """Leave ``model/`` (what the engine loads) and ``curve.json``.

    With a seat among others, train together with them; the first process alone leaves something.
    """
    settings = context.job.recovery
    seat = read_seat(os.environ)
    peers = None
    if seat is not None and seat.size > 1:
        shape = StepShape(rows=_step_rows(settings), row_tokens=settings.sequence_tokens)
        peers = context.finishing.enter_context(joined(seat, shape))
    device = runtime.prepare(settings.seed)
    search = context.inputs[Stage.SEARCH]
    architecture = read_chosen(search)
    parent = fetch_parent(context.job.source, context.cache_dir, context.progress)
    with tempfile.TemporaryDirectory(dir=context.checkpoint_dir.parent, prefix="model-") as name:
        scratch = Path(name)
        sliced = scratch / "sliced"
        slice_chosen(context.store, context.manifests[Stage.SEARCH], search, sliced)
        dtype = runtime.compute_dtype(device)
        student = models.load(sliced, dtype).to(device)
        teacher = models.load(parent, dtype).to(device).eval()
        plan = _plan(context, parent, student, teacher, settings)
        points = _train(context, student, teacher, plan, peers)
        if peers is not None and not peers.leads:
            return Summary(stage=Stage.RECOVER)
        trained = scratch / "trained"
        precision = getattr(torch, context.job.target.precision.torch_name)
        models.save(student.to(precision).cpu(), trained, parent)
        target = context.job.target
        able = capabilities(target.engine, target.accelerator)
        formats = tuple(ExportFormat(item) for item in able.export_formats)
        chosen = export(trained, context.output_dir / "model", formats)
    curve = RecoveryCurve(points=points, tokens=points[-1].tokens)
    (context.output_dir / "curve.json").write_bytes(dump(curve))
    return _summary(curve, architecture, chosen)


def _train(
    context: StageContext,
    student: HeterogeneousForCausalLM,
    teacher: HeterogeneousForCausalLM,
    plan: DistillationPlan,
    peers: Peers | None,
) -> tuple[RecoveryPoint, ...]:
    folder = context.checkpoint_dir / _CHECKPOINTS
    progress = WithFigures(
        context.progress,
        steps=plan.steps,
        step_tokens=context.job.recovery.step_tokens,
        learning_rate=plan.learning_rate,
    )
    if peers is None:
        with stop_on_signal() as stop:
            return distil(
                *(student, teacher, plan), checkpoints=folder, progress=progress, stop=stop
            )
    peers.share_folder(newest_folder(folder), folder)
    own = replace(
        plan,
        rows=peers.own_rows(plan.rows),
        rows_per_step=peers.own_step_rows,
        # The first process validates; the others read as little as they can.
        validation_rows=plan.validation_rows if peers.leads else plan.validation_rows[:1],
    )
    with peers.stop_on_signal() as stop:
        points = distil(*(student, teacher, own), checkpoints=folder, progress=progress, stop=stop)
        return peers.whole_points(points)


def _step_rows(settings: RecoverySettings) -> int:
    return settings.step_tokens // settings.sequence_tokens


def _plan(
    context: StageContext,
    parent: Path,
    student: HeterogeneousForCausalLM,
    teacher: HeterogeneousForCausalLM,
    settings: RecoverySettings,
) -> DistillationPlan:
    tokenizer = AutoTokenizer.from_pretrained(parent)
    corpus = load_corpus(context.job.text)
    length = settings.sequence_tokens
    steps = settings.tokens // settings.step_tokens
    return DistillationPlan(
        rows=windows(
            tokenizer,
            corpus,
            Split.TRAINING,
            tokens=steps * settings.step_tokens,
            sequence_tokens=length,
            seed=settings.seed,
        ),
        validation_rows=windows(
            tokenizer,
            corpus,
            Split.HELD_OUT,
            tokens=max(length, min(VALIDATION_TOKENS, round(VALIDATION_SHARE * settings.tokens))),
            sequence_tokens=length,
            seed=0,
        ),
        rows_per_step=_step_rows(settings),
        learning_rate=settings.learning_rate,
        train_embeddings=student.config.hidden_size != teacher.config.hidden_size,
        checkpoint_every_steps=settings.checkpoint_every_steps,
    )


def _summary(curve: RecoveryCurve, architecture: Architecture, chosen: ExportFormat) -> Summary:
    losses = [p.validation_loss for p in curve.points if p.validation_loss is not None]
    return Summary(
        stage=Stage.RECOVER,
        message=(
            f"distilled over {curve.tokens:,} tokens: held-out loss {losses[0]:.3f} to "
            f"{losses[-1]:.3f} nats per token; saved as {chosen.value}"
        ),
        figures={
            "tokens": curve.tokens,
            "parameters": architecture.parameters(),
            "validation_loss_before": losses[0],
            "validation_loss_after": losses[-1],
            "export_format": chosen.value,
        },
    )
