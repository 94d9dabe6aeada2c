"""Whether a job has ended, and how: read from the recorded attempts alone."""

from __future__ import annotations

from dataclasses import dataclass

from autocompress.api.v1alpha1.status import (
    Attempts,
    CompressionJobStatus,
    ConditionReason,
    Failure,
    FailureReason,
    StageState,
    StageStatus,
)
from autocompress.contract.stage import Outcome, Summary, next_stage
from autocompress_operator.messages import short
from autocompress_operator.work import STAGE_NAMES, STAGES, Work, title


@dataclass(frozen=True, kw_only=True, slots=True)
class Ending:
    """How a job ended. ``succeeded`` is not yet that there is a model: see ``promotable``."""

    succeeded: bool
    promotable: bool
    reason: ConditionReason | FailureReason
    message: str


#: Failures that say more of the job than that a stage failed.
_OWN_ENDINGS = frozenset(
    {
        FailureReason.BUDGET_INFEASIBLE,
        FailureReason.DEADLINE_EXCEEDED,
        FailureReason.INVALID_SPEC,
        FailureReason.ENGINE_NOT_INSTALLED,
    }
)


def stage_of(status: CompressionJobStatus, work: Work) -> StageStatus:
    """Where a stage stands; at its beginning where status does not have it yet."""
    name = STAGE_NAMES[work]
    return status.stage(name) or StageStatus(name=name)


def attempts_of(status: CompressionJobStatus, work: Work) -> Attempts:
    """Where a piece of work stands."""
    if work is Work.PREFLIGHT:
        return status.preflight or Attempts()
    return stage_of(status, work)


def current_work(status: CompressionJobStatus) -> Work | None:
    """What is to be done next or goes on; None when all that can be done is done."""
    preflight = status.preflight
    if preflight is not None and preflight.state is not StageState.SUCCEEDED:
        return Work.PREFLIGHT
    finished = {
        stage: Summary(stage=stage, outcome=found.outcome or Outcome.DONE)
        for work, stage in STAGES.items()
        if (found := stage_of(status, work)).state is StageState.SUCCEEDED
    }
    following = next_stage(finished)
    return None if following is None else Work(following.value)


def is_unreachable(preflight: Attempts) -> bool:
    """A preflight that is tried again, because storage may come back."""
    failure = preflight.last_failure
    return (
        preflight.state is StageState.FAILED
        and failure is not None
        and failure.reason is FailureReason.ENDPOINT_UNREACHABLE
    )


def ending(status: CompressionJobStatus) -> Ending | None:
    """How the job ended; None while there is something to do."""
    for work in (Work.PREFLIGHT, *STAGES):
        found = attempts_of(status, work)
        if found.state is StageState.FAILED and found.last_failure is not None:
            if work is Work.PREFLIGHT and is_unreachable(found):
                return None
            return _failed(work, found.last_failure)
    if current_work(status) is not None:
        return None
    return _finished(status)


def _failed(work: Work, failure: Failure) -> Ending:
    reason: ConditionReason | FailureReason
    if failure.reason in _OWN_ENDINGS:
        reason = failure.reason
    elif work is Work.PREFLIGHT:
        # A source that cannot be used is a fault of the spec that names it.
        bad_data = failure.reason is FailureReason.BAD_DATA
        reason = FailureReason.INVALID_SPEC if bad_data else ConditionReason.PREFLIGHT_FAILED
    else:
        reason = ConditionReason.STAGE_FAILED
    return Ending(
        succeeded=False,
        promotable=False,
        reason=reason,
        message=short(f"{title(work)}: {failure.reason}. {failure.message}"),
    )


def _finished(status: CompressionJobStatus) -> Ending:
    for work in STAGES:
        stage = stage_of(status, work)
        if stage.outcome is Outcome.BUDGET_ALREADY_MET:
            return Ending(
                succeeded=True,
                promotable=False,
                reason=ConditionReason.BUDGET_ALREADY_MET,
                message=short(
                    "The parent model meets the budget: nothing was compressed. "
                    + (stage.message or "")
                ),
            )
    validated = stage_of(status, Work.VALIDATE)
    match validated.outcome:
        case Outcome.BUDGET_NOT_MET:
            reason = ConditionReason.BUDGET_NOT_MET
        case Outcome.QUALITY_NOT_MET:
            reason = ConditionReason.QUALITY_NOT_MET
        case _:
            return Ending(
                succeeded=True,
                promotable=True,
                reason=ConditionReason.SUCCEEDED,
                message=short(validated.message or "Budget and quality are met."),
            )
    return Ending(
        succeeded=False,
        promotable=False,
        reason=reason,
        message=short(
            f"{validated.message or 'Measured on the target.'} The scorecard is in status; relax "
            "the limit, or give search and recovery more, in a new job."
        ),
    )


def refused_spec(fault: str) -> Ending:
    """A spec that the API server let in and that cannot be run."""
    return Ending(
        succeeded=False,
        promotable=False,
        reason=FailureReason.INVALID_SPEC,
        message=short(fault),
    )
