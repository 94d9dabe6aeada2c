"""Run one stage once: find its recorded result, or fetch inputs, work, and publish."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from autocompress.contract.documents import load
from autocompress.contract.errors import DataError, UnavailableError
from autocompress.contract.progress import Progress
from autocompress.contract.stage import UPSTREAM, Effort, Manifest, Outcome, Stage, input_digest
from autocompress.domain.job import Job
from autocompress.stages.checkpoints import (
    checkpoint_prefix,
    drop_checkpoints,
    stored_checkpoints,
)
from autocompress.stages.context import StageContext
from autocompress.stages.memory_watch import MemoryWatch
from autocompress.stages.table import load_stage
from autocompress.stages.tally import ENGINE_STARTS
from autocompress.stages.users import record_use
from autocompress.store import artifacts
from autocompress.store.counting import CountingStore
from autocompress.store.protocol import Store

#: Documents in which a stage refers to an artifact beside its own.
_REFERENCES = {"reordered.json", "model.json"}


@dataclass(frozen=True, kw_only=True)
class Workplace:
    """Where a stage runs: ``work_dir`` survives a killed run, ``cache_dir`` is shared by jobs.

    ``user``: the object whose use of artifacts is recorded, as NAMESPACE.NAME.UID. ``nodes``: how
    many machines work at the stage.
    """

    store: Store
    work_dir: Path
    cache_dir: Path
    progress: Progress
    user: str | None = None
    nodes: int = 1


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
) -> dict[Stage, Manifest]:
    """Run ``stage``, or find its recorded result; returns the stages that are finished then.

    Raises:
        DataError: a stage that it builds on is not finished.
    """
    started = clock()
    store = CountingStore(workplace.store)
    is_remote = store.local_path("checkpoints") is None
    finished = finished_stages(job, store, source_revision=source_revision)
    if stage in finished:
        if is_remote:
            drop_checkpoints(store, finished[stage].input_digest)
        _record_use(workplace, finished)
        return finished
    _require_upstream(stage, finished, store)
    digest = _input_digest(stage, job, source_revision, finished)
    _record_use(workplace, finished, stage_prefix(stage, digest), checkpoint_prefix(digest))
    own = workplace.work_dir / f"{stage.value}-{digest.removeprefix('sha256:')[:16]}"
    checkpoints = own / "checkpoints"
    checkpoints.mkdir(parents=True, exist_ok=True)
    engine_starts = ENGINE_STARTS.count
    with (
        tempfile.TemporaryDirectory(dir=own, prefix="work-") as scratch,
        MemoryWatch() as memory,
        ExitStack() as stack,
    ):
        if is_remote:
            stack.enter_context(stored_checkpoints(store, digest, checkpoints, workplace.progress))
        output = Path(scratch) / "output"
        output.mkdir()
        context = StageContext(
            job=job,
            store=store,
            inputs=_fetch_inputs(stage, finished, store, Path(scratch)),
            manifests=finished,
            input_digest=digest,
            source_revision=source_revision,
            output_dir=output,
            checkpoint_dir=checkpoints,
            cache_dir=workplace.cache_dir,
            progress=workplace.progress,
            finishing=stack,
        )
        summary = load_stage(stage)(context)
        manifest = artifacts.publish(
            store,
            stage_prefix(stage, digest),
            output,
            kind=stage.value,
            input_digest=digest,
            summary=summary,
            took=lambda: artifacts.Took(
                wall_seconds=round(clock() - started, 3),
                peak_memory_bytes=memory.peak_bytes,
                effort=Effort(
                    nodes=workplace.nodes,
                    engine_starts=ENGINE_STARTS.count - engine_starts,
                    bytes_moved=store.bytes_moved,
                ),
            ),
        )
    if is_remote:
        drop_checkpoints(store, digest)
    shutil.rmtree(own, ignore_errors=True)
    finished[stage] = manifest
    _record_use(workplace, finished)
    return finished


def assist(
    stage: Stage, job: Job, workplace: Workplace, *, source_revision: str
) -> dict[Stage, Manifest]:
    """Work at ``stage`` beside the process that executes it, and wait until that has published.

    Nothing of this process's work is kept: neither output nor checkpoints.

    Raises:
        DataError: a stage that it builds on is not finished.
        UnavailableError: the other process ended without a result.
    """
    store = workplace.store
    finished = finished_stages(job, store, source_revision=source_revision)
    if stage in finished:
        return finished
    _require_upstream(stage, finished, store)
    workplace.work_dir.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir=workplace.work_dir, prefix="beside-") as scratch,
        ExitStack() as stack,
    ):
        checkpoints, output = Path(scratch) / "checkpoints", Path(scratch) / "output"
        checkpoints.mkdir()
        output.mkdir()
        context = StageContext(
            job=job,
            store=store,
            inputs=_fetch_inputs(stage, finished, store, Path(scratch)),
            manifests=finished,
            input_digest=_input_digest(stage, job, source_revision, finished),
            source_revision=source_revision,
            output_dir=output,
            checkpoint_dir=checkpoints,
            cache_dir=workplace.cache_dir,
            progress=workplace.progress,
            finishing=stack,
        )
        load_stage(stage)(context)
    finished = finished_stages(job, store, source_revision=source_revision)
    if stage not in finished:
        raise UnavailableError(
            f"stage {stage.value}: its first process has ended without a result in {store.uri}; "
            "look at that one's log"
        )
    return finished


def _require_upstream(stage: Stage, finished: Mapping[Stage, Manifest], store: Store) -> None:
    for name, manifest in finished.items():
        if (outcome := _outcome(manifest)) is not Outcome.DONE:
            raise DataError(f"the job ended at {name.value} with {outcome}: nothing is left to do")
    missing = [name.value for name in UPSTREAM[stage] if name not in finished]
    if missing:
        raise DataError(
            f"stage {stage.value} builds on {', '.join(missing)}, not finished for this job in "
            f"{store.uri}; run `autocompress run`, or the stages in order"
        )


def _record_use(workplace: Workplace, finished: Mapping[Stage, Manifest], *more: str) -> None:
    if workplace.user is None:
        return
    prefixes = [*more]
    for stage, manifest in finished.items():
        prefix = stage_prefix(stage, manifest.input_digest)
        prefixes.append(prefix)
        for name in _REFERENCES & manifest.files.keys():
            data = artifacts.read(workplace.store, prefix, manifest, name)
            prefixes.append(load(artifacts.Reference, data, name=name).prefix)
    record_use(workplace.store, workplace.user, prefixes)


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
