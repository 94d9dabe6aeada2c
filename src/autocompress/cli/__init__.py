"""The command line. Nothing heavy is imported until a command needs it."""

from autocompress.cli.app import main

__all__ = ["main"]
