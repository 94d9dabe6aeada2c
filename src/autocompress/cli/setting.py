"""What the commands about jobs share: the job file, its store, its parent's revision."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from autocompress.api.reading import read_job
from autocompress.api.v1alpha1 import CompressionJob
from autocompress.contract.digest import digest
from autocompress.contract.errors import SpecError
from autocompress.contract.stage import Manifest, Stage
from autocompress.domain.job import Job
from autocompress.evaluation.suites import find_suite
from autocompress.sources.content import content_revision
from autocompress.sources.revision import resolve_revision
from autocompress.stages.execute import finished_stages
from autocompress.store.opening import open_store
from autocompress.store.protocol import Store

JobFile = Annotated[Path, typer.Argument(metavar="JOB.yaml", help="The CompressionJob.")]
StoreUri = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URI",
        help="Where artifacts go: a folder or s3://bucket/prefix. "
        "Default: the job's artifacts.uri, else ./runs.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A job that was read, with its store opened and its parent's revision resolved.

    ``source_revision`` covers all that is read from outside, ``parent_revision`` the parent alone.
    """

    job: Job
    text: str
    store: Store
    cache_dir: Path
    work_dir: Path
    source_revision: str
    parent_revision: str

    def finished(self) -> dict[Stage, Manifest]:
        """The stages whose results are in the store."""
        return finished_stages(self.job, self.store, source_revision=self.source_revision)


def open_setting(job_file: Path, store_uri: str | None) -> Setting:
    """Read the job and open what it names."""
    text = read_text(job_file)
    parsed = read_job(text, name=str(job_file))
    job = parsed.to_domain()
    # Read by the last stage alone; a wrong name must not wait for it.
    find_suite(job.quality.suite, job.quality.limit)
    cache_dir = cache_folder()
    store = open_job_store(parsed, store_uri)
    parent_revision = resolve_revision(job.source, cache_dir)
    return Setting(
        job=job,
        text=text,
        store=store,
        cache_dir=cache_dir,
        work_dir=cache_dir / "work",
        source_revision=_inputs_revision(job, parent_revision),
        parent_revision=parent_revision,
    )


def open_job_store(parsed: CompressionJob, store_uri: str | None) -> Store:
    """The store that the user named, else the job's, else the folder ``runs``.

    A parent in a bucket is read through the same endpoint, unless the environment names another.
    """
    given = parsed.spec.artifacts
    endpoint = given.endpoint if given else None
    if endpoint is not None:
        os.environ.setdefault("AWS_ENDPOINT_URL", endpoint)
    return open_store(store_uri or (given.uri if given else None) or "runs", endpoint=endpoint)


def _inputs_revision(job: Job, parent_revision: str) -> str:
    # A text or a request set of the user's own is named by its place in the job, so its content
    # is told apart here; without one, the revision is the parent's alone.
    files = [uri for uri in (job.text.uri, job.workload.request_set_uri) if uri is not None]
    return digest([parent_revision, *map(content_revision, files)]) if files else parent_revision


def read_text(path: Path) -> str:
    """A text file the user named.

    Raises:
        SpecError: it is not there or not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"cannot read {path}: {error}; give the path of a job file") from error


def cache_folder() -> Path:
    """The cache of this machine: ``AUTOCOMPRESS_CACHE``, else the user's cache folder."""
    named = os.environ.get("AUTOCOMPRESS_CACHE")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "autocompress"
