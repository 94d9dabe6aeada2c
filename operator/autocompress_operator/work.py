"""What runs in pods for a job: preflight, the four stages, cleanup; and its names elsewhere."""

from __future__ import annotations

from enum import StrEnum

from autocompress.api.v1alpha1.running import StageName, StepName
from autocompress.contract.stage import Stage


class Work(StrEnum):
    """One piece of work; the value is its label and the middle of its children's names."""

    PREFLIGHT = "preflight"
    PROFILE = "profile"
    SEARCH = "search"
    RECOVER = "recover"
    VALIDATE = "validate"
    CLEANUP = "cleanup"


STAGES: dict[Work, Stage] = {Work(stage.value): stage for stage in Stage}
STAGE_NAMES: dict[Work, StageName] = {
    work: StageName(stage.value.capitalize()) for work, stage in STAGES.items()
}
WORKS: dict[StageName, Work] = {name: work for work, name in STAGE_NAMES.items()}

#: What status calls it; cleanup has no place in status.
STEPS: dict[Work, StepName] = {
    Work.PREFLIGHT: StepName.PREFLIGHT,
    **{work: StepName(name.value) for work, name in STAGE_NAMES.items()},
}


def title(work: Work) -> str:
    """As messages call it."""
    return "Preflight" if work is Work.PREFLIGHT else work.value.capitalize()
