"""Commands on cost tables: ``table show``, ``table export``, ``table import``."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from autocompress.cli.setting import AsJson, JobFile, Setting, StoreUri, open_setting
from autocompress.contract.errors import DataError
from autocompress.contract.stage import Stage
from autocompress.stages.execute import stage_prefix
from autocompress.store import artifacts

app = typer.Typer(help="Cost tables: what each block costs in the engine, as measured.")


@app.command()
def show(job_file: JobFile, store: StoreUri = None, as_json: AsJson = False) -> None:
    """Print the cost table that a job's profile measured."""
    from autocompress.cost.show import table_rows
    from autocompress.cost.table import read_table

    setting = open_setting(job_file, store)
    with tempfile.TemporaryDirectory() as scratch:
        folder = _fetch_profile(setting, Path(scratch))
        if as_json:
            typer.echo((folder / "cost_table.json").read_text(), nl=False)
            return
        rows = table_rows(read_table(folder))
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in rows.header:
        table.add_column(name)
    for row in rows.rows:
        table.add_row(*row)
    console = Console()
    console.print(table)
    for note in rows.notes:
        console.print(note, highlight=False)


@app.command()
def export(
    job_file: JobFile,
    output: Annotated[Path, typer.Argument(metavar="FILE.json", help="The file to write.")],
    store: StoreUri = None,
) -> None:
    """Write a job's cost table and parent costs to a file that `table import` reads."""
    from autocompress.cost.exchange import bundle

    setting = open_setting(job_file, store)
    with tempfile.TemporaryDirectory() as scratch:
        output.write_bytes(bundle(_fetch_profile(setting, Path(scratch))))
    typer.echo(str(output))


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE.json", help="What `table export` wrote.")],
    store: Annotated[
        str, typer.Option("--store", metavar="URI", help="The store to put it into.")
    ] = "runs",
) -> None:
    """Put an exported cost table into a store, where jobs of the same conditions find it."""
    from autocompress.cost.exchange import unbundle
    from autocompress.store.opening import open_store

    try:
        data = file.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {file}: {error}") from error
    prefix = unbundle(open_store(store), data, name=str(file))
    typer.echo(json.dumps({"imported": prefix}))


def _fetch_profile(setting: Setting, folder: Path) -> Path:
    manifest = setting.finished().get(Stage.PROFILE)
    if manifest is None:
        raise DataError(
            f"{setting.job.name} has no finished profile in {setting.store.uri}; run "
            "`autocompress stage profile JOB.yaml` first"
        )
    prefix = stage_prefix(Stage.PROFILE, manifest.input_digest)
    artifacts.fetch(setting.store, prefix, manifest, folder)
    return folder
