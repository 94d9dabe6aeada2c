"""The command line's entry: all commands, and one way to turn errors into exit codes."""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from typing import NoReturn

import typer
from typer.exceptions import Abort, Exit, TyperException

from autocompress import __version__
from autocompress.cli import cluster, inspecting, jobs, models, pinned, tables
from autocompress.cli.faults import InternalError, as_known
from autocompress.cli.interrupts import take_stops
from autocompress.contract.errors import AutocompressError, ExitCode
from autocompress.stages.lineage import end_with_parent

HELP = """Compress a language model for a deployment: accelerator, engine, workload and budget.

A job file names a parent model, the target and the limits; `autocompress run JOB.yaml` profiles
the real engine, searches, recovers, measures, and publishes the model when its limits are met.
`autocompress plan JOB.yaml` says what that would do.

Exit codes: 0 done (a missed budget is a result, see the scorecard), 64 bad spec, 65 bad data or
model, 69 storage or network unavailable, 70 engine or internal fault, 74 disk full, 75 try later,
77 access refused, 78 budget infeasible, 143 asked to stop (run again to go on).
"""

#: What typer makes of an interrupt.
_INTERRUPTED = 130

app = typer.Typer(
    help=HELP,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
jobs.add_commands(app)
inspecting.add_commands(app)
models.add_commands(app)
pinned.add_commands(app)
cluster.add_commands(app)
app.add_typer(tables.app, name="table")


def _show_version(value: bool) -> None:
    if value:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Show the version."
    ),
) -> None:
    del version


def main() -> NoReturn:
    """Run the command line and exit with the documented code."""
    take_stops()
    end_with_parent(os.environ, signal.SIGTERM)
    as_json = "--json" in sys.argv
    try:
        result = app(standalone_mode=False)
        if result == _INTERRUPTED:
            raise KeyboardInterrupt  # which typer has turned into its own code
        sys.exit(result if isinstance(result, int) else 0)
    except (Abort, Exit):
        sys.exit(0)
    except TyperException as error:
        typer.echo(f"error: {error}; `autocompress --help` lists commands and options", err=True)
        sys.exit(ExitCode.BAD_SPEC)
    except (KeyboardInterrupt, Exception) as error:  # noqa: BLE001  # the code must be right
        known = as_known(error)
        if isinstance(known, InternalError):
            traceback.print_exception(error)
        _fail(known, as_json)


def _fail(error: AutocompressError, as_json: bool) -> NoReturn:
    if as_json:
        report = {"error": {"reason": error.reason.value, "message": str(error)}}
        typer.echo(json.dumps(report))
    else:
        typer.echo(f"error ({error.reason.value}): {error}", err=True)
    sys.exit(error.exit_code)
