"""Commands that do the work: ``run`` a whole job, or one ``stage`` of it, or what a cluster runs
before and after.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from autocompress.api.reading import read_job
from autocompress.cli.setting import (
    AsJson,
    JobFile,
    Setting,
    StoreUri,
    cache_folder,
    open_job_store,
    open_setting,
    read_text,
)
from autocompress.cli.termination import SummaryFile, faults_left_in, leave_report
from autocompress.cli.together import find_node, run_together
from autocompress.contract.documents import dump
from autocompress.contract.errors import SpecError
from autocompress.contract.progress import Both, Progress, Silent
from autocompress.contract.stage import Manifest, Outcome, Stage, Summary
from autocompress.contract.termination import StageReport
from autocompress.display import open_display
from autocompress.local import run_stages, stage_command
from autocompress.stages.execute import Workplace, assist, execute
from autocompress.stages.reporting import stage_report
from autocompress.stages.seats import Node, Seat, read_seat
from autocompress.stages.users import check_user, clean_up
from autocompress.text.enough import check_enough

User = Annotated[
    str | None,
    typer.Option(
        metavar="NAMESPACE.NAME.UID",
        help="The object that uses the artifacts, to be recorded in the store.",
    ),
]


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this module."""
    for command in (run, stage, preflight, cleanup):
        app.command()(command)


def run(job_file: JobFile, store: StoreUri = None, as_json: AsJson = False) -> int:
    """Run a job end to end on this machine.

    Stages whose results are in the store are not run again; a run that was stopped goes on where
    it was. At the end: the scorecard, the report and the published model.
    """
    setting = open_setting(job_file, store)
    if Stage.VALIDATE not in setting.finished():
        _check_before(setting)
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
    *,
    store: StoreUri = None,
    summary_file: SummaryFile = None,
    progress_port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, help="Serve /progress and /metrics on this port; 0 takes a free one."
        ),
    ] = None,
    user: User = None,
    as_json: AsJson = False,
) -> int:
    """Run one stage of a job; a finished one returns its recorded summary at once.

    Recovery runs on several GPUs, or on several nodes that the environment tells of as torchrun
    would (PET_NNODES and so on): this command then starts a process for each GPU.
    """
    with faults_left_in(summary_file, name.value):
        if user is not None:
            check_user(user)
        node = _node(name, job_file)
        if node is not None and node.processes > 1:
            options = [*(["--store", store] if store else []), *(["--json"] if as_json else [])]
            options += ["--user", user] if user else []

            def command(seat: Seat, file: Path) -> list[str]:
                own = ["--summary-file", str(file), *_port_option(progress_port, seat)]
                return stage_command(name, job_file, [*options, *own])

            return run_together(node, command, summary_file)
        seat = _seat(name, node)
        with _progress(name, progress_port, seat, as_json=as_json) as progress:
            setting = open_setting(job_file, store)
            workplace = Workplace(
                store=setting.store,
                work_dir=setting.work_dir,
                cache_dir=setting.cache_dir,
                progress=progress,
                user=user,
                nodes=seat.nodes if seat else 1,
            )
            work = execute if seat is None or seat.leads else assist
            finished = work(name, setting.job, workplace, source_revision=setting.source_revision)
            report = stage_report(
                name,
                setting.job,
                setting.store,
                finished,
                source_revision=setting.parent_revision,
            )
            if report.message:
                progress.say(report.message)
        leave_report(summary_file, report)
    if as_json and (seat is None or seat.leads):
        summary = finished[name].summary or Summary(stage=name)
        typer.echo(dump(summary).decode(), nl=False)
    return 0


def preflight(
    job_file: JobFile,
    store: StoreUri = None,
    summary_file: SummaryFile = None,
    as_json: AsJson = False,
) -> None:
    """Check what stages would fail on before any of them runs: source, store, suite and engine.

    No weights are fetched. What only a stage's own image can tell is left to the stage, and said.
    """
    from autocompress.preflight import check

    with faults_left_in(summary_file, "preflight"):
        parsed = read_job(read_text(job_file), name=str(job_file))
        if store is None and parsed.spec.artifacts is None:
            raise SpecError(
                "spec.artifacts.uri: is missing; stages that run in pods of their own need a "
                "place that all of them reach, for example s3://bucket/prefix"
            )
        report = check(parsed, lambda: open_job_store(parsed, store), cache_dir=cache_folder())
        leave_report(summary_file, report)
    _show(report, as_json=as_json)


def cleanup(
    job_file: JobFile,
    user: Annotated[
        str,
        typer.Option(
            metavar="NAMESPACE.NAME.UID", help="The object whose artifacts are no longer wanted."
        ),
    ],
    store: StoreUri = None,
    summary_file: SummaryFile = None,
    as_json: AsJson = False,
) -> None:
    """Remove the artifacts that an object used and no other object uses; cost tables stay."""
    with faults_left_in(summary_file, "cleanup"):
        check_user(user)
        parsed = read_job(read_text(job_file), name=str(job_file))
        done = clean_up(open_job_store(parsed, store), user)
        report = StageReport(
            stage="cleanup",
            outcome=Outcome.DONE,
            message=(
                f"removed {len(done.removed)} artifacts ({done.objects} objects) of {user}; "
                f"{len(done.kept)} are used by others and stay"
            ),
            figures={
                "removed": len(done.removed),
                "kept": len(done.kept),
                "objects": done.objects,
            },
        )
        leave_report(summary_file, report)
    _show(report, as_json=as_json)


def _check_before(setting: Setting) -> None:
    """What stages would fail on only after they have cost time."""
    # Late: a finished job needs none of it.
    from autocompress.preflight import probe

    check_enough(setting.job)
    probe(setting.store)


def _node(name: Stage, job_file: Path) -> Node | None:
    """The place of this machine in a recovery, unless this process has its seat already."""
    if name is not Stage.RECOVER or read_seat(os.environ) is not None:
        return None
    return find_node(read_job(read_text(job_file), name=str(job_file)).to_domain())


def _seat(name: Stage, node: Node | None) -> Seat | None:
    """The seat of this process in a recovery; the stage reads it from the environment too."""
    if name is not Stage.RECOVER:
        return None
    if node is not None:
        (seat,) = node.seats()
        os.environ.update(seat.environment())
    return read_seat(os.environ)


@contextmanager
def _progress(
    stage: Stage, port: int | None, seat: Seat | None, *, as_json: bool
) -> Iterator[Progress]:
    if seat is not None and seat.local_rank > 0:
        yield Silent()  # the first process of the machine speaks for it
        return
    display = open_display(stage.value, as_json=as_json)
    try:
        if port is None:
            yield display
        else:
            # Late: a run on this machine serves nothing.
            from autocompress.progress_port import ProgressPort

            with ProgressPort(stage, port) as served:
                display.say(f"progress and metrics on port {served.port}")
                yield Both(display, served)
    finally:
        display.close()


def _port_option(port: int | None, seat: Seat) -> list[str]:
    return [] if port is None or seat.local_rank > 0 else ["--progress-port", str(port)]


def _show(report: StageReport, *, as_json: bool) -> None:
    typer.echo(dump(report).decode() if as_json else report.message, nl=not as_json)


def _show_result(setting: Setting, *, as_json: bool) -> None:
    from autocompress.cli.inspecting import result_document, show_scorecard, write_report

    finished = setting.finished()
    report = write_report(setting, finished, Path("reports") / f"{setting.job.name}.html")
    if as_json:
        typer.echo(json.dumps(result_document(setting, finished, report)))
    else:
        show_scorecard(setting, finished, report)
