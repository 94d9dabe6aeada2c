"""What a run would do, worked out without running it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from autocompress.api.reading import read_job
from autocompress.cli.setting import cache_folder, open_setting, read_text
from autocompress.contract.errors import DataError, UnavailableError
from autocompress.contract.progress import Silent
from autocompress.contract.stage import Manifest, Outcome, Stage
from autocompress.domain.architecture import Architecture
from autocompress.domain.budget import Limit, Metric
from autocompress.domain.costs import resolve_bounds
from autocompress.domain.job import Job
from autocompress.domain.space import SearchSpace
from autocompress.stages.execute import stage_prefix
from autocompress.store import artifacts
from autocompress.store.protocol import Store


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedStage:
    """One stage: ``done`` (its result is in the store), ``to do``, or ``not needed``."""

    stage: Stage
    state: str
    note: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedLimit:
    """One limit in base units; ``None`` where it is known only after measuring."""

    name: str
    unit: str
    bound: float | None
    percent_of_parent: int | None
    parent: float | None
    smallest: float | None
    feasible: bool | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The whole plan; ``lines`` is the same for people."""

    job: str
    parent_parameters: int
    smallest_parameters: int
    architectures: str
    stages: tuple[PlannedStage, ...]
    limits: tuple[PlannedLimit, ...]
    lines: tuple[str, ...]


def make_plan(job_file: Path, store_uri: str | None, config: Path | None) -> Plan:
    """Read the job, look into the store, and judge what can be judged.

    Raises:
        SpecError, DataError: as a run would.
    """
    if config is not None:
        job = read_job(read_text(job_file), name=str(job_file)).to_domain()
        architecture = _read_config(config)
        return _plan(job, architecture, {}, None)
    setting = open_setting(job_file, store_uri)
    from autocompress.models.checkpoint import read_architecture
    from autocompress.sources.fetch import fetch_parent

    try:
        parent = fetch_parent(setting.job.source, setting.cache_dir, Silent())
    except UnavailableError as error:
        raise UnavailableError(f"{error}; or give `--config config.json` of the parent") from error
    return _plan(setting.job, read_architecture(parent)[0], setting.finished(), setting.store)


def _read_config(path: Path) -> Architecture:
    from autocompress.families.registry import identify

    try:
        config = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise DataError(f"{path} is not JSON: {error}") from error
    if not isinstance(config, dict):
        raise DataError(f"{path} holds no JSON object; give a model's config.json")
    return identify(config).read_config(config)[0]


def _plan(
    job: Job,
    architecture: Architecture,
    finished: Mapping[Stage, Manifest],
    store: Store | None,
) -> Plan:
    from autocompress.cost.space import default_space
    from autocompress.engines.capabilities import capabilities, restrict

    able = capabilities(job.target.engine, job.target.accelerator)
    space = restrict(default_space(architecture, job.search), able)
    smallest = space.smallest()
    limits = (
        _limits_measured(job, space, finished[Stage.PROFILE], store)
        if store is not None and Stage.PROFILE in finished
        else tuple(_limit_unmeasured(job, limit, smallest) for limit in job.budget.limits)
    )
    return Plan(
        job=job.name,
        parent_parameters=architecture.parameters(),
        smallest_parameters=smallest.parameters(),
        architectures=f"{space.size():.2e}",
        stages=tuple(_planned_stage(stage, finished) for stage in Stage),
        limits=limits,
        lines=(
            f"parent    {architecture.parameters():,} parameters, hidden size "
            f"{architecture.hidden_size}, {len(architecture.blocks)} blocks",
            f"space     {space.size():.1e} architectures, down to "
            f"{smallest.parameters():,} parameters; hidden sizes "
            f"{', '.join(map(str, space.hidden_size))}",
            *(_limit_line(limit) for limit in limits),
        ),
    )


def _planned_stage(stage: Stage, finished: Mapping[Stage, Manifest]) -> PlannedStage:
    notes = {
        Stage.PROFILE: "measure blocks and the parent in the engine",
        Stage.SEARCH: "rank, reorder, train supernet and router, choose",
        Stage.RECOVER: "slice the reordered parent and distil",
        Stage.VALIDATE: "measure workload and quality beside the parent",
    }
    if stage in finished:
        summary = finished[stage].summary
        return PlannedStage(stage=stage, state="done", note=summary.message if summary else "")
    ended = any(m.summary and m.summary.outcome is not Outcome.DONE for m in finished.values())
    state = "not needed" if ended else "to do"
    return PlannedStage(stage=stage, state=state, note="" if ended else notes[stage])


def _limits_measured(
    job: Job, space: SearchSpace, manifest: Manifest, store: Store
) -> tuple[PlannedLimit, ...]:
    from autocompress.cost.model import load_model, smallest_reachable

    with tempfile.TemporaryDirectory(dir=_scratch()) as scratch:
        folder = Path(scratch)
        prefix = stage_prefix(Stage.PROFILE, manifest.input_digest)
        artifacts.fetch(store, prefix, manifest, folder)
        model = load_model(folder)
    bounds = resolve_bounds(job.budget, model.parent_costs)
    planned = []
    for limit, bound in zip(job.budget.limits, bounds, strict=True):
        least = smallest_reachable(model, space, limit, job.workload)
        planned.append(
            PlannedLimit(
                name=limit.name,
                unit=limit.metric.unit,
                bound=bound,
                percent_of_parent=limit.percent_of_parent,
                parent=model.parent_costs.value(limit),
                smallest=least,
                feasible=limit.utilization(least, bound) <= 1,
            )
        )
    return tuple(planned)


def _limit_unmeasured(job: Job, limit: Limit, smallest: Architecture) -> PlannedLimit:
    least = None
    feasible = None
    if limit.metric is Metric.MEMORY:
        # Weights and KV cache are exact without measuring; workspace and buffers come on top.
        size = job.target.precision.bytes_per_element
        tokens = job.workload.context_tokens * job.workload.max_sequences
        least = float(smallest.weight_bytes(size) + tokens * smallest.kv_bytes_per_token(size))
        if limit.bound is not None and least > limit.bound:
            feasible = False
    return PlannedLimit(
        name=limit.name,
        unit=limit.metric.unit,
        bound=limit.bound,
        percent_of_parent=limit.percent_of_parent,
        parent=None,
        smallest=least,
        feasible=feasible,
    )


def _limit_line(limit: PlannedLimit) -> str:
    verdict = {
        True: "reachable",
        False: "NOT reachable",
        None: "whether it is reachable is known after profile",
    }
    asked = f"{limit.percent_of_parent} % of the parent"
    figures = [
        *([asked] if limit.percent_of_parent is not None else []),
        *_figures(limit),
    ]
    return f"limit     {limit.name}: {', '.join([*figures, verdict[limit.feasible]])}"


def _figures(limit: PlannedLimit) -> list[str]:
    return [
        f"{name} {_show(value, limit.unit)}"
        for name, value in (
            ("limit", limit.bound),
            ("parent", limit.parent),
            ("smallest reachable", limit.smallest),
        )
        if value is not None
    ]


def _show(value: float, unit: str) -> str:
    if unit == "s":
        return f"{value * 1000:.2f} ms"
    return f"{value / 2**20:.0f} MiB" if unit == "bytes" else f"{value:.1f} {unit}"


def _scratch() -> Path:
    folder = cache_folder() / "work"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
