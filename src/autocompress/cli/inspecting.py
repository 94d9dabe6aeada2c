"""Commands that read: ``plan``, ``scorecard``, ``report``, ``schema``."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from autocompress.api.crd import crd_yaml
from autocompress.api.schema import json_schema
from autocompress.cli.planning import Plan, make_plan
from autocompress.cli.setting import AsJson, JobFile, Setting, StoreUri, open_setting
from autocompress.contract.documents import dump, load
from autocompress.contract.errors import DataError
from autocompress.contract.stage import Manifest, Outcome, Stage
from autocompress.domain.records import Scorecard
from autocompress.stages.execute import stage_prefix
from autocompress.store import artifacts


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this module."""
    for command in (plan, scorecard, report, schema):
        app.command()(command)


def plan(
    job_file: JobFile,
    store: StoreUri = None,
    config: Annotated[
        Path | None,
        typer.Option(help="A config.json that stands in for a parent that is not at hand."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what a run would do: stages done or to do, the search space, whether the budget is
    feasible as far as that is known before measuring.
    """
    made = make_plan(job_file, store, config)
    if as_json:
        typer.echo(dump(made).decode(), nl=False)
    else:
        _print_plan(made)


def scorecard(job_file: JobFile, store: StoreUri = None, as_json: AsJson = False) -> None:
    """Print the measured result of a finished job."""
    setting = open_setting(job_file, store)
    finished = setting.finished()
    _require_ended(finished)
    if as_json:
        typer.echo(json.dumps(result_document(setting, finished, None)))
    else:
        show_scorecard(setting, finished, None)


def report(
    job_file: JobFile,
    store: StoreUri = None,
    output: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("report.html"),
) -> None:
    """Write the HTML report of a job, as far as it has come."""
    setting = open_setting(job_file, store)
    finished = setting.finished()
    if not finished:
        raise DataError(f"no stage of {setting.job.name} is finished in {setting.store.uri}")
    typer.echo(str(write_report(setting, finished, output)))


def schema(
    crd: Annotated[
        bool, typer.Option("--crd", help="The cluster's CustomResourceDefinition, as YAML.")
    ] = False,
) -> None:
    """Print the JSON Schema of a CompressionJob."""
    typer.echo(crd_yaml() if crd else json.dumps(json_schema(), indent=2), nl=not crd)


def write_report(setting: Setting, finished: Mapping[Stage, Manifest], path: Path) -> Path:
    """Render the report of the finished stages to ``path``."""
    from autocompress.report.collect import collect
    from autocompress.report.html import render

    with tempfile.TemporaryDirectory() as scratch:
        folders = {}
        for stage, manifest in finished.items():
            folder = Path(scratch) / stage.value
            folder.mkdir()
            for name in manifest.files:
                if name.endswith(".json") and "/" not in name:
                    (folder / name).write_bytes(_read(setting, manifest, name))
            folders[stage] = folder
        data = collect(setting.store, setting.text, finished, folders)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render(data), encoding="utf-8")
    return path.resolve()


def result_document(
    setting: Setting, finished: Mapping[Stage, Manifest], report_path: Path | None
) -> dict[str, object]:
    """Everything a program wants of an ended job, as plain JSON values."""
    card = read_scorecard(setting, finished)
    return {
        "job": setting.job.name,
        "stages": {
            stage.value: {
                "outcome": manifest.summary.outcome if manifest.summary else None,
                "message": manifest.summary.message if manifest.summary else "",
                "wallSeconds": manifest.wall_seconds,
                "peakMemoryBytes": manifest.peak_memory_bytes,
                "digest": manifest.output_digest,
            }
            for stage, manifest in finished.items()
        },
        "scorecard": json.loads(dump(card)) if card else None,
        "model": published_model(setting, finished),
        "report": str(report_path) if report_path else None,
    }


def show_scorecard(
    setting: Setting, finished: Mapping[Stage, Manifest], report_path: Path | None
) -> None:
    """Print the scorecard, where the report is, and where the model is."""
    from autocompress.report.table import scorecard_table

    console = Console()
    card = read_scorecard(setting, finished)
    if card is not None:
        console.print(scorecard_table(card))
    else:
        last = list(finished.values())[-1]
        console.print(last.summary.message if last.summary else "no stage is finished")
    if report_path is not None:
        console.print(f"Report  {report_path}", soft_wrap=True, highlight=False)
    model = published_model(setting, finished)
    if model is not None:
        console.print(f"Model   {model}", soft_wrap=True, highlight=False)
    elif card is not None:
        console.print("Model   not published: a limit or the quality floor was missed")


def read_scorecard(setting: Setting, finished: Mapping[Stage, Manifest]) -> Scorecard | None:
    """The scorecard of a validated job."""
    if Stage.VALIDATE not in finished:
        return None
    data = _read(setting, finished[Stage.VALIDATE], "scorecard.json")
    return load(Scorecard, data, name="scorecard.json")


def published_model(setting: Setting, finished: Mapping[Stage, Manifest]) -> str | None:
    """The folder or URI of the published model; ``None`` when none was published."""
    manifest = finished.get(Stage.VALIDATE)
    if manifest is None or "model.json" not in manifest.files:
        return None
    reference = load(artifacts.Reference, _read(setting, manifest, "model.json"), name="model.json")
    return artifacts.location(setting.store, reference)


def _read(setting: Setting, manifest: Manifest, name: str) -> bytes:
    prefix = stage_prefix(Stage(manifest.kind), manifest.input_digest)
    return artifacts.read(setting.store, prefix, manifest, name)


def _require_ended(finished: Mapping[Stage, Manifest]) -> None:
    last = list(finished.values())[-1] if finished else None
    ended = last is not None and (
        last.kind == Stage.VALIDATE or (last.summary and last.summary.outcome != Outcome.DONE)
    )
    if not ended:
        done = ", ".join(stage.value for stage in finished) or "none"
        raise DataError(f"the job is not finished (stages done: {done}); run `autocompress run`")


def _print_plan(made: Plan) -> None:
    console = Console()
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("stage", "state", "what it would do"):
        table.add_column(column)
    for step in made.stages:
        table.add_row(step.stage.value, step.state, step.note)
    console.print(table)
    for line in made.lines:
        console.print(line, highlight=False, soft_wrap=True)
