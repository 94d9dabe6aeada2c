"""Run one stage once: find its recorded result, or fetch inputs, work, and publish."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from autocompress.contract.errors import DataError
from autocompress.contract.progress import Progress
from autocompress.contract.stage import UPSTREAM, Manifest, Outcome, Stage, input_digest
from autocompress.domain.job import Job
from autocompress.stages.context import StageContext
from autocompress.stages.memory_watch import MemoryWatch
from autocompress.stages.table import load_stage
from autocompress.store import artifacts
from autocompress.store.protocol import Store


@dataclass(frozen=True, kw_only=True)
class Workplace:
    """Where a stage runs: ``work_dir`` survives a killed run, ``cache_dir`` is shared by jobs."""

    store: Store
    work_dir: Path
    cache_dir: Path
    progress: Progress


def stage_prefix(stage: Stage, digest: str) -> str:
    """Where the store keeps a stage's result."""
    return f"stages/{stage.value}/{digest.removeprefix('sha256:')}"


def finished_stages(job: Job, store: Store, *, source_revision: str) -> dict[Stage, Manifest]:
    """Every stage of this job whose complete result is in the store, in order.

    The digest of a stage needs the outputs of those before it, so the first gap ends the search.
    """
    finished: dict[Stage, Manifest] = {}
    for stage in Stage:
        if any(
            name not in finished or _outcome(finished[name]) is not Outcome.DONE
            for name in UPSTREAM[stage]
        ):
            break
        digest = _input_digest(stage, job, source_revision, finished)
        manifest = artifacts.find(store, stage_prefix(stage, digest), input_digest=digest)
        if manifest is None:
            break
        finished[stage] = manifest
    return finished


def execute(
    stage: Stage,
    job: Job,
    workplace: Workplace,
    *,
    source_revision: str,
    clock: Callable[[], float] = time.monotonic,
) -> Manifest:
    """Run ``stage``, or return the manifest of its recorded result at once.

    Raises:
        DataError: a stage that it builds on is not finished.
    """
    finished = finished_stages(job, workplace.store, source_revision=source_revision)
    if stage in finished:
        return finished[stage]
    for name, manifest in finished.items():
        if (outcome := _outcome(manifest)) is not Outcome.DONE:
            raise DataError(f"the job ended at {name.value} with {outcome}: nothing is left to do")
    missing = [name.value for name in UPSTREAM[stage] if name not in finished]
    if missing:
        raise DataError(
            f"stage {stage.value} builds on {', '.join(missing)}, not finished for this job in "
            f"{workplace.store.uri}; run `autocompress run`, or the stages in order"
        )
    digest = _input_digest(stage, job, source_revision, finished)
    own = workplace.work_dir / f"{stage.value}-{digest.removeprefix('sha256:')[:16]}"
    checkpoints = own / "checkpoints"
    checkpoints.mkdir(parents=True, exist_ok=True)
    started = clock()
    with tempfile.TemporaryDirectory(dir=own, prefix="work-") as scratch, MemoryWatch() as memory:
        inputs = _fetch_inputs(stage, finished, workplace.store, Path(scratch))
        output = Path(scratch) / "output"
        output.mkdir()
        context = StageContext(
            job=job,
            store=workplace.store,
            inputs=inputs,
            manifests=finished,
            input_digest=digest,
            source_revision=source_revision,
            output_dir=output,
            checkpoint_dir=checkpoints,
            cache_dir=workplace.cache_dir,
            progress=workplace.progress,
        )
        summary = load_stage(stage)(context)
        manifest = artifacts.publish(
            workplace.store,
            stage_prefix(stage, digest),
            output,
            kind=stage.value,
            input_digest=digest,
            summary=summary,
            wall_seconds=round(clock() - started, 3),
            peak_memory_bytes=memory.peak_bytes,
        )
    shutil.rmtree(own, ignore_errors=True)
    return manifest


def _outcome(manifest: Manifest) -> Outcome | None:
    return manifest.summary.outcome if manifest.summary else None


def _input_digest(
    stage: Stage, job: Job, source_revision: str, finished: Mapping[Stage, Manifest]
) -> str:
    upstream = {name: finished[name].output_digest for name in UPSTREAM[stage]}
    return input_digest(stage, job, source_revision=source_revision, upstream=upstream)


def _fetch_inputs(
    stage: Stage, finished: Mapping[Stage, Manifest], store: Store, scratch: Path
) -> dict[Stage, Path]:
    inputs = {}
    for name in UPSTREAM[stage]:
        folder = scratch / "inputs" / name.value
        manifest = finished[name]
        artifacts.fetch(store, stage_prefix(name, manifest.input_digest), manifest, folder)
        inputs[name] = folder
    return inputs
