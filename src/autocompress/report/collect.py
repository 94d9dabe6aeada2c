"""Gather a report's data from the documents that finished stages left."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TypeVar

from autocompress import __version__
from autocompress.api.reading import read_job
from autocompress.contract.documents import load
from autocompress.contract.stage import Manifest, Stage
from autocompress.cost.table import TABLE_FILE, CostTable
from autocompress.domain.architecture import Architecture
from autocompress.domain.costs import MeasuredCosts, PredictedCosts
from autocompress.domain.ranking import Ranking
from autocompress.domain.records import (
    HeldOutReport,
    RecoveryCurve,
    Scorecard,
    SearchTrace,
    StageCost,
)
from autocompress.domain.space import SearchSpace
from autocompress.report.data import ReportData
from autocompress.store.artifacts import Reference, location
from autocompress.store.protocol import Store

Value = TypeVar("Value")


def collect(
    store: Store,
    job_text: str,
    manifests: Mapping[Stage, Manifest],
    folders: Mapping[Stage, Path],
) -> ReportData:
    """What there is of a job: ``folders`` hold the documents of the stages in ``manifests``.

    Raises:
        SpecError: ``job_text`` is not a valid job.
        DataError: a document is not what its name says.
    """
    job = read_job(job_text, name="job.yaml").to_domain()
    read = _Reader(folders)
    return ReportData(
        job_text=job_text,
        job_name=job.name,
        summaries={
            stage: manifest.summary
            for stage, manifest in manifests.items()
            if manifest.summary is not None
        },
        budget=job.budget,
        space=read(Stage.PROFILE, "space.json", SearchSpace),
        held_out=read(Stage.PROFILE, "held_out.json", HeldOutReport),
        parent_costs=read(Stage.PROFILE, "parent_costs.json", MeasuredCosts),
        ranking=read(Stage.SEARCH, "ranking.json", Ranking),
        architecture=read(Stage.SEARCH, "architecture.json", Architecture),
        predicted_costs=read(Stage.SEARCH, "predicted_costs.json", PredictedCosts),
        trace=read(Stage.SEARCH, "trace.json", SearchTrace),
        curve=read(Stage.RECOVER, "curve.json", RecoveryCurve),
        scorecard=read(Stage.VALIDATE, "scorecard.json", Scorecard),
        stage_costs=tuple(
            StageCost(
                stage=stage.value,
                wall_seconds=manifests[stage].wall_seconds,
                peak_memory_bytes=manifests[stage].peak_memory_bytes,
            )
            for stage in Stage
            if stage in manifests
        ),
        conditions=_versions() | _measured_on(read(Stage.PROFILE, TABLE_FILE, CostTable)),
        digests=_digests(manifests),
        artifacts=_artifacts(store, read),
        command=shlex.join(["autocompress", "run", f"{job.name}.yaml", "--store", store.uri]),
    )


class _Reader:
    """Loads a document when its stage left it."""

    def __init__(self, folders: Mapping[Stage, Path]) -> None:
        self._folders = folders

    def __call__(self, stage: Stage, name: str, kind: type[Value]) -> Value | None:
        path = self._folders[stage] / name if stage in self._folders else None
        if path is None or not path.is_file():
            return None
        return load(kind, path.read_bytes(), name=name)


def _versions() -> dict[str, str]:
    """Versions of what writes the report."""
    found = {"autocompress": __version__, "Python": platform.python_version()}
    for package in ("torch", "transformers", "lm-eval"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _measured_on(table: CostTable | None) -> dict[str, str]:
    """The conditions that the cost table was measured under."""
    if table is None:
        return {}
    conditions = table.conditions
    return {
        "Processors": f"{conditions.processors}, {conditions.threads} threads for the engine",
        "Instruction sets": ", ".join(conditions.instruction_sets) or "–",
        "PyTorch of the engine": conditions.torch_version,
        "Engine arguments": shlex.join(conditions.arguments),
    }


def _digests(manifests: Mapping[Stage, Manifest]) -> dict[str, str]:
    found = {}
    for stage in Stage:
        if stage in manifests:
            found[f"{stage.value.capitalize()}, input"] = manifests[stage].input_digest
            found[f"{stage.value.capitalize()}, output"] = manifests[stage].output_digest
    return found


def _artifacts(store: Store, read: _Reader) -> dict[str, str]:
    documents = {
        "Reordered parent": (Stage.SEARCH, "reordered.json"),
        "Published model": (Stage.VALIDATE, "model.json"),
    }
    found = {"Store": store.uri}
    for words, (stage, name) in documents.items():
        target = read(stage, name, Reference)
        if target is not None:
            found[words] = location(store, target)
    return found
