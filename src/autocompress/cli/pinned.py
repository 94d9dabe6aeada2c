"""Commands on a published model by its digest: ``fetch`` it, ``verify`` it where it lies."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Annotated

import typer

from autocompress.cli.setting import AsJson
from autocompress.contract.errors import SpecError
from autocompress.promote import pinned

Digest = Annotated[
    str,
    typer.Option(
        "--digest", metavar="sha256:...", help="The content wanted: status.result.digest of a job."
    ),
]


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command()(fetch)
    app.command()(verify)


def fetch(
    uri: Annotated[str, typer.Argument(help="The model: status.result.modelUri of a job.")],
    digest: Digest,
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="An empty folder.")],
    as_json: AsJson = False,
) -> None:
    """Bring a published model into a folder and check every file against the digest.

    A fetch that was interrupted goes on where it was. S3 is reached as everywhere: by
    AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
    """
    _require_digest(digest)
    fetched = pinned.fetch(uri, digest, to)
    if as_json:
        document = {
            "uri": uri,
            "digest": digest,
            "folder": str(to),
            "files": fetched.files,
            "sizeBytes": fetched.size_bytes,
            "downloadedBytes": fetched.downloaded_bytes,
        }
        typer.echo(json.dumps(document))
    else:
        typer.echo(
            f"{to}: {fetched.files} files, {fetched.size_bytes / 2**20:,.0f} MiB "
            f"({fetched.downloaded_bytes / 2**20:,.0f} MiB downloaded now); digest verified"
        )


def verify(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A model folder.")],
    digest: Digest,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- COMMAND...]", help="What to become when the content is right."),
    ] = None,
) -> None:
    """Check that a folder holds the content of that digest, then become COMMAND if one is given.

    For servers whose files somebody else brings, such as KServe's storage initializer:
    autocompress verify /mnt/models --digest sha256:... -- autocompress serve /mnt/models
    """
    _require_digest(digest)
    program = shutil.which(command[0]) if command else None
    if command and program is None:
        raise SpecError(f"{command[0]}: no such program; give COMMAND as its name or path")
    pinned.verify(directory, digest)
    if command and program:
        os.execv(program, command)
    typer.echo(f"{directory}: {digest}")


def _require_digest(digest: str) -> None:
    algorithm, _, value = digest.partition(":")
    if algorithm != "sha256" or len(value) != 64 or set(value) - set("0123456789abcdef"):
        raise SpecError(f"--digest {digest}: give sha256: and 64 hexadecimal digits")
