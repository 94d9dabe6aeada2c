"""``python -m autocompress``: the command line."""

from autocompress.cli import main

main()
