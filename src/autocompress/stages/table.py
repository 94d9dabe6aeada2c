"""The stage table: which function runs a stage. Named as text and loaded late, because a stage
loads torch or an engine and the command line must not.
"""

from __future__ import annotations

from importlib import import_module
from typing import cast

from autocompress.contract.stage import Stage
from autocompress.stages.context import StageFunction

STAGE_FUNCTIONS = {
    Stage.PROFILE: "autocompress.profile.stage:run",
    Stage.SEARCH: "autocompress.search.stage:run",
    Stage.RECOVER: "autocompress.recover.stage:run",
    Stage.VALIDATE: "autocompress.validate.stage:run",
}


def load_stage(stage: Stage) -> StageFunction:
    """Import and return the function of a stage."""
    module, name = STAGE_FUNCTIONS[stage].split(":")
    return cast(StageFunction, getattr(import_module(module), name))
