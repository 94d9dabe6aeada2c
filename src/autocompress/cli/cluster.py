"""Commands on a cluster: ``promote`` a job's model, list ``jobs``, read ``logs``."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from autocompress.cli.setting import AsJson, read_text
from autocompress.cluster import jobs as cluster_jobs
from autocompress.cluster import logs as cluster_logs
from autocompress.cluster.client import Cluster, open_cluster
from autocompress.contract.errors import SpecError
from autocompress.promote import files
from autocompress.promote.deployment import Deployment, Overrides, plan_deployment
from autocompress.promote.job_object import JobObject, read_object
from autocompress.promote.manifests import Format, manifests
from autocompress.promote.verdict import RefusedError, prove

Namespace = Annotated[
    str | None,
    typer.Option("--namespace", "-n", help="The job's namespace. Default: the context's."),
]
Context = Annotated[
    str | None,
    typer.Option("--context", help="The kubeconfig's context. Default: the current one."),
]

_JOB = re.compile(
    r"(?:(?:compressionjobs?|cj|cpj)(?:\.autocompress\.dev)?/)?([a-z]([a-z0-9-]*[a-z0-9])?)"
)
_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this module."""
    for command in (promote, jobs, logs):
        app.command()(command)


def promote(
    job: Annotated[
        str | None, typer.Argument(metavar="[compressionjob/NAME]", help="The job.")
    ] = None,
    *,
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="A folder of a working tree.")],
    format_: Annotated[Format, typer.Option("--format", help="What to write.")],
    namespace: Namespace = None,
    from_file: Annotated[
        Path | None,
        typer.Option(
            help="The object from a file (kubectl get compressionjob NAME -o yaml) instead."
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(help="What the server is called. Default: as the job; give one that stays."),
    ] = None,
    image: Annotated[
        str | None,
        typer.Option(help="The server's image. Default: the one the model was measured with."),
    ] = None,
    cpu: Annotated[str | None, typer.Option(help="CPUs of the server, for example 4.")] = None,
    memory: Annotated[str | None, typer.Option(help="Its memory, for example 16Gi.")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace files that promote has not written.")
    ] = False,
    context: Context = None,
    as_json: AsJson = False,
) -> int:
    """Write serving manifests for a model that met its budget and quality, pinned by digest.

    Refused with exit code 65 when the job ended without such a model, 75 while it may still get
    there; the message says why and what to do. The same job always gives the same bytes.
    """
    found = _find(job, namespace, from_file, context)
    try:
        proven = prove(found)
    except RefusedError as refused:
        _show_refusal(refused, as_json=as_json)
        return refused.exit_code
    overrides = Overrides(name=name, image=image, cpu=cpu, memory=memory)
    deployment = plan_deployment(found, proven, overrides)
    texts = {
        to / file: files.render(documents, job=deployment.job, notes=_notes(deployment, format_))
        for file, documents in manifests(deployment, format_).items()
    }
    strangers = () if force else files.foreign(texts)
    if strangers:
        raise SpecError(
            f"{strangers[0]} is there and not as promote left it; move it away, give another --to "
            "or --name, or --force to replace it"
        )
    _show_written(deployment, files.write(texts), as_json=as_json)
    return 0


def jobs(
    *,
    namespace: Namespace = None,
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="Those of every namespace.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on with every change.")] = False,
    wide: Annotated[bool, typer.Option("--wide", help="All columns.")] = False,
    context: Context = None,
    as_json: AsJson = False,
) -> None:
    """List the CompressionJobs of a cluster, as `kubectl get compressionjobs` does."""
    cluster = open_cluster(context)
    where = None if all_namespaces else _namespace(cluster, namespace)
    with _until_stopped():
        if as_json:
            _print_json(cluster, where, watch=watch)
        else:
            _print_table(cluster, where, watch=watch, wide=wide)


def logs(
    job: Annotated[str, typer.Argument(metavar="NAME", help="The job.")],
    *,
    namespace: Namespace = None,
    stage: Annotated[
        cluster_logs.Step | None, typer.Option(help="Of this one. Default: the newest.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for the pod, and for more lines.")
    ] = False,
    context: Context = None,
) -> None:
    """Print the log of a job's newest pod."""
    name = _job_name(job)
    cluster = open_cluster(context)
    where = _namespace(cluster, namespace)
    pod = cluster_logs.newest_pod(cluster, where, name, stage)
    typer.echo(f"pod {pod.name} (stage {pod.stage})", err=True)
    lines = (
        cluster_logs.follow(cluster, pod, name, stage)
        if follow
        else cluster_logs.log_lines(cluster, pod)
    )
    with _until_stopped():
        for line in lines:
            typer.echo(line)


@contextmanager
def _until_stopped() -> Iterator[None]:
    """What goes on for ever ends well when it is interrupted or nobody reads on."""
    try:
        yield
    except KeyboardInterrupt:
        pass
    except BrokenPipeError:
        # Nothing is left to flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Columns:
    """Rows below their headings; a column grows when something longer comes."""

    def __init__(self, table: cluster_jobs.Table, *, with_namespace: bool) -> None:
        self._with_namespace = with_namespace
        headings = tuple(column.upper() for column in table.columns)
        first = cluster_jobs.Row(namespace="NAMESPACE", cells=headings)
        self._widths = [0] * len(self._cells(first))
        for row in (first, *table.rows):
            self._grow(self._cells(row))
        self.show(first)

    def show(self, row: cluster_jobs.Row) -> None:
        """Print one row."""
        cells = self._cells(row)
        self._grow(cells)
        padded = (cell.ljust(width) for cell, width in zip(cells, self._widths, strict=True))
        typer.echo("   ".join(padded).rstrip() + ("   (deleted)" if row.gone else ""))

    def _grow(self, cells: tuple[str, ...]) -> None:
        self._widths = [max(*pair) for pair in zip(self._widths, map(len, cells), strict=True)]

    def _cells(self, row: cluster_jobs.Row) -> tuple[str, ...]:
        return (row.namespace, *row.cells) if self._with_namespace else row.cells


def _print_table(cluster: Cluster, where: str | None, *, watch: bool, wide: bool) -> None:
    width = cluster_jobs.Width.WIDE if wide else cluster_jobs.Width.NARROW
    table = cluster_jobs.table(cluster, where, width)
    if not table.rows and not watch:
        place = f"namespace {where}" if where else "any namespace"
        typer.echo(f"no CompressionJob in {place} of {cluster.server}", err=True)
        return
    printer = _Columns(table, with_namespace=where is None)
    for row in table.rows:
        printer.show(row)
    if watch:
        for row in cluster_jobs.changes(cluster, where, width, table.version):
            printer.show(row)


def _print_json(cluster: Cluster, namespace: str | None, *, watch: bool) -> None:
    if not watch:
        typer.echo(cluster_jobs.read_all(cluster, namespace).rstrip())
        return
    for event in cluster_jobs.events(cluster, namespace, ""):
        typer.echo(json.dumps({"type": event.type, "object": event.object}))


def _find(
    job: str | None, namespace: str | None, from_file: Path | None, context: str | None
) -> JobObject:
    name = _job_name(job) if job is not None else None
    if from_file is not None:
        found = read_object(read_text(from_file), origin=str(from_file))
        if name not in (None, found.name):
            raise SpecError(f"{from_file} holds compressionjob {found.name}, not {name}")
        return found
    if name is None:
        raise SpecError("no job is named; give compressionjob/NAME, or --from-file")
    cluster = open_cluster(context)
    where = _namespace(cluster, namespace)
    text = cluster_jobs.read(cluster, where, name)
    return read_object(text, origin=f"compressionjob {where}/{name}")


def _job_name(text: str) -> str:
    found = _JOB.fullmatch(text)
    if found is None:
        raise SpecError(f"{text}: is not the name of a job; give compressionjob/NAME or NAME")
    return found.group(1)


def _namespace(cluster: Cluster, given: str | None) -> str:
    chosen = given or cluster.namespace
    if not _NAMESPACE.fullmatch(chosen):
        raise SpecError(f"--namespace {chosen}: is not the name of a namespace")
    return chosen


def _notes(deployment: Deployment, format_: Format) -> tuple[str, ...]:
    """What must be there besides; in the file, where whoever applies it looks."""
    storage, notes = deployment.storage, []
    if storage.secret:
        notes.append(
            f"Needs the Secret {storage.secret} (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) in the "
            "namespace that it is applied to."
        )
    if format_ is Format.KSERVE and storage.endpoint and storage.secret:
        scheme, _, host = storage.endpoint.rstrip("/").partition("://")
        notes.append(
            f"KServe reads the endpoint from that Secret: kubectl annotate secret {storage.secret} "
            f"serving.kserve.io/s3-endpoint={host} "
            f"serving.kserve.io/s3-usehttps={int(scheme == 'https')}"
        )
    return tuple(notes)


def _show_refusal(refused: RefusedError, *, as_json: bool) -> None:
    if as_json:
        report = {"error": {"reason": refused.reason, "message": str(refused)}}
        typer.echo(json.dumps(report))
    else:
        typer.echo(f"not promoted ({refused.reason}): {refused}", err=True)


def _show_written(
    deployment: Deployment, written: tuple[files.Written, ...], *, as_json: bool
) -> None:
    if as_json:
        document = {
            "job": deployment.job,
            "modelUri": deployment.storage.uri,
            "digest": deployment.storage.digest,
            "image": deployment.image,
            "files": [{"path": str(each.path), "changed": each.changed} for each in written],
        }
        typer.echo(json.dumps(document))
        return
    for each in written:
        typer.echo(f"{each.path}: {'written' if each.changed else 'unchanged'}")
    typer.echo(f"serves {deployment.storage.digest} of {deployment.job}")
    if "@sha256:" not in deployment.image:
        typer.echo(f"note: the image {deployment.image} is not pinned by digest", err=True)
