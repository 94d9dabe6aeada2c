"""``python -m autocompress_operator``: runs the operator until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import os
import sys

import kopf

from autocompress_operator.operator import run_operator
from autocompress_operator.settings import SettingsError, read_settings


def main() -> int:
    """Read the environment and run; the exit code says whether it ended well."""
    try:
        settings = read_settings(os.environ)
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        return 64
    kopf.configure(
        debug=settings.log_level == "DEBUG",
        quiet=settings.log_level in ("WARNING", "ERROR"),
        log_format=kopf.LogFormat.JSON,
    )
    # Of every event that it was handled, of every probe that it was answered.
    for chatty in ("kopf.objects", "kopf.activities", "aiohttp.access"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    try:
        asyncio.run(run_operator(settings))
    except kopf.LoginError as error:
        sys.stderr.write(f"{error}\n")
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main())
