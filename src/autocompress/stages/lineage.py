"""Processes that end when the one that started them dies, however it dies (Linux)."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping, MutableMapping

#: Names the process to end with. Not "whoever is the parent": by the time that a child asks, its
#: parent may be gone already; nor "anyone but process 1", which is what a container begins with.
_VARIABLE = "AUTOCOMPRESS_ENDS_WITH"
_PR_SET_PDEATHSIG = 1


def for_child(environment: Mapping[str, str]) -> dict[str, str]:
    """``environment`` for a child that is to end with this process."""
    return {**environment, _VARIABLE: str(os.getpid())}


def end_with_parent(environment: MutableMapping[str, str], signal_number: int) -> None:
    """Do what ``for_child`` asked for, if it did: the kernel sends ``signal_number`` when the
    parent dies. The request is taken out of ``environment``: it is not for this one's children.
    """
    parent = environment.pop(_VARIABLE, None)
    if parent is not None:
        end_with(int(parent), signal_number)


def end_with(parent: int, signal_number: int) -> None:
    """End with the process ``parent``, which started this one."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal_number)
        if os.getppid() != parent:  # it died before we asked
            sys.exit(1)
