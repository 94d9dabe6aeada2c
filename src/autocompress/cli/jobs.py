"""Commands that do the work: ``run`` a whole job, or one ``stage`` of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from autocompress.api.placement import require_one_machine
from autocompress.api.reading import read_job_file
from autocompress.cli.setting import AsJson, JobFile, Setting, StoreUri, open_setting
from autocompress.contract.documents import dump
from autocompress.contract.errors import AutocompressError
from autocompress.contract.stage import Manifest, Stage, Summary
from autocompress.display import open_display
from autocompress.local import run_stages, stage_command
from autocompress.stages.execute import Workplace, execute


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command()(run)
    app.command()(stage)


def run(job_file: JobFile, store: StoreUri = None, as_json: AsJson = False) -> int:
    """Run a job end to end on this machine.

    Stages whose results are in the store are not run again; a run that was stopped goes on where
    it was. At the end: the scorecard, the report and the published model.
    """
    require_one_machine(read_job_file(job_file))
    setting = open_setting(job_file, store)
    options = ["--store", setting.store.uri, *(["--json"] if as_json else [])]
    console = Console(stderr=True)

    def recognised(stage: Stage, manifest: Manifest) -> None:
        message = f": {manifest.summary.message}" if manifest.summary else ""
        console.print(f"[bold]{stage.value:>8}[/]  done before{message}", highlight=False)

    outcome = run_stages(
        setting.job,
        setting.store,
        source_revision=setting.source_revision,
        command=lambda stage: stage_command(stage, job_file, options),
        recognised=recognised,
    )
    if outcome.exit_code == 0:
        _show_result(setting, as_json=as_json)
    return outcome.exit_code


def stage(
    name: Annotated[Stage, typer.Argument(help="Which stage.")],
    job_file: JobFile,
    store: StoreUri = None,
    summary_file: Annotated[
        Path | None,
        typer.Option(help="Where to leave the summary as JSON (a pod's termination message)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run one stage of a job; a finished one returns its recorded summary at once."""
    try:
        manifest = _execute(name, job_file, store, as_json=as_json)
    except AutocompressError as error:
        fault = {"stage": name.value, "reason": error.reason.value, "message": str(error)[:3000]}
        _leave(summary_file, lambda: json.dumps(fault).encode())
        raise
    summary = manifest.summary or Summary(stage=name)
    _leave(summary_file, lambda: dump(summary))
    if as_json:
        typer.echo(dump(summary).decode(), nl=False)


def _execute(name: Stage, job_file: Path, store: str | None, *, as_json: bool) -> Manifest:
    display = open_display(name.value, as_json=as_json)
    try:
        setting = open_setting(job_file, store)
        workplace = Workplace(
            store=setting.store,
            work_dir=setting.work_dir,
            cache_dir=setting.cache_dir,
            progress=display,
        )
        manifest = execute(name, setting.job, workplace, source_revision=setting.source_revision)
        if manifest.summary and manifest.summary.message:
            display.say(manifest.summary.message)
        return manifest
    finally:
        display.close()


def _leave(path: Path | None, content: Callable[[], bytes]) -> None:
    if path is not None:
        path.write_bytes(content())


def _show_result(setting: Setting, *, as_json: bool) -> None:
    from autocompress.cli.inspecting import result_document, show_scorecard, write_report

    finished = setting.finished()
    report = write_report(setting, finished, Path("reports") / f"{setting.job.name}.html")
    if as_json:
        typer.echo(json.dumps(result_document(setting, finished, report)))
    else:
        show_scorecard(setting, finished, report)
