"""The conditions of a job: all types, kstatus-correct, with messages that move only with facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from autocompress.api.v1alpha1.status import (
    Attempts,
    CompressionJobStatus,
    Condition,
    ConditionReason,
    ConditionStatus,
    ConditionType,
    FailureReason,
    StageState,
)
from autocompress.contract.stage import Outcome
from autocompress_operator.endings import Ending, current_work, stage_of
from autocompress_operator.messages import short
from autocompress_operator.work import STAGES, Work

Reason = ConditionReason | FailureReason

_ACCESS = frozenset(
    {
        FailureReason.CREDENTIALS_MISSING,
        FailureReason.CREDENTIALS_INVALID,
        FailureReason.BUCKET_NOT_FOUND,
        FailureReason.ENDPOINT_UNREACHABLE,
    }
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Working:
    """Something is going on, or waits for its turn."""

    reason: Reason
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Paused:
    """Suspended by the spec; nothing runs."""

    message: str


Phase = Working | Paused | Ending


@dataclass(frozen=True, kw_only=True, slots=True)
class Fact:
    """What one condition says."""

    status: ConditionStatus
    reason: Reason
    message: str = ""


_UNKNOWN = Fact(status=ConditionStatus.UNKNOWN, reason=ConditionReason.PENDING)


def conditions(
    previous: Sequence[Condition],
    facts: Mapping[ConditionType, Fact],
    *,
    generation: int,
    now: datetime,
) -> tuple[Condition, ...]:
    """Every type, in one order. What no fact is given of keeps what it said."""
    before = {condition.type: condition for condition in previous}
    return tuple(
        _condition(type_, facts.get(type_), before.get(type_), generation=generation, now=now)
        for type_ in ConditionType
    )


def _condition(
    type_: ConditionType,
    fact: Fact | None,
    before: Condition | None,
    *,
    generation: int,
    now: datetime,
) -> Condition:
    if fact is None:
        if before is not None:
            return before.model_copy(update={"observed_generation": generation})
        fact = _UNKNOWN
    moved = before is None or before.status is not fact.status
    return Condition(
        type=type_,
        status=fact.status,
        observed_generation=generation,
        last_transition_time=now if moved or before is None else before.last_transition_time,
        reason=fact.reason,
        message=short(fact.message),
    )


def phase_facts(phase: Phase) -> dict[ConditionType, Fact]:
    """Ready, Reconciling, Stalled and Succeeded: what kstatus and pipelines read."""
    match phase:
        case Working(reason=reason, message=message):
            return {
                ConditionType.READY: _false(reason, message),
                ConditionType.RECONCILING: _true(reason, message),
                ConditionType.STALLED: _false(ConditionReason.NOT_STALLED),
                ConditionType.SUCCEEDED: _UNKNOWN,
            }
        case Paused(message=message):
            suspended = ConditionReason.SUSPENDED_BY_SPEC
            return {
                ConditionType.READY: _false(suspended, message),
                ConditionType.RECONCILING: _false(suspended, message),
                ConditionType.STALLED: _false(ConditionReason.NOT_STALLED),
                ConditionType.SUCCEEDED: _UNKNOWN,
            }
        case Ending(reason=reason, message=message):
            # Ready=False alone reads as in progress for ever: what has ended without a model
            # is stalled, too.
            return {
                ConditionType.READY: _true(reason, message)
                if phase.promotable
                else _false(reason, message),
                ConditionType.RECONCILING: _false(ConditionReason.FINISHED),
                ConditionType.STALLED: _false(ConditionReason.NOT_STALLED)
                if phase.promotable
                else _true(reason, message),
                ConditionType.SUCCEEDED: _true(reason, message)
                if phase.succeeded
                else _false(reason, message),
            }


def artifacts_fact(status: CompressionJobStatus) -> Fact:
    """Whether storage was reached with the job's credentials."""
    work = current_work(status)
    attempts: Attempts | None = None
    if work is not None:
        attempts = status.preflight if work is Work.PREFLIGHT else stage_of(status, work)
    failure = attempts.last_failure if attempts else None
    if failure is not None and failure.reason in _ACCESS:
        return _false(failure.reason, failure.message)
    done = [stage_of(status, one).state is StageState.SUCCEEDED for one in STAGES]
    preflight = status.preflight
    if any(done) or (preflight is not None and preflight.state is StageState.SUCCEEDED):
        return _true(ConditionReason.PROBE_SUCCEEDED)
    if preflight is None:
        return Fact(
            status=ConditionStatus.UNKNOWN,
            reason=ConditionReason.PREFLIGHT_DISABLED,
            message="The preflight is switched off; the first stage will tell.",
        )
    return _UNKNOWN


def verdict_facts(
    status: CompressionJobStatus, *, least_retention_percent: int, least_utilization_percent: int
) -> dict[ConditionType, Fact]:
    """BudgetMet and QualityMet, once measured."""
    profiled = stage_of(status, Work.PROFILE)
    if profiled.outcome is Outcome.BUDGET_ALREADY_MET:
        reason = ConditionReason.BUDGET_ALREADY_MET
        return {
            ConditionType.BUDGET_MET: _true(reason, profiled.message or ""),
            ConditionType.QUALITY_MET: _unmeasured(),
        }
    validated = stage_of(status, Work.VALIDATE)
    if validated.state is not StageState.SUCCEEDED or validated.outcome is None:
        return {
            ConditionType.BUDGET_MET: _unmeasured(),
            ConditionType.QUALITY_MET: _unmeasured(),
        }
    return {
        ConditionType.BUDGET_MET: _budget(status, validated.outcome, least_utilization_percent),
        ConditionType.QUALITY_MET: _quality(status, validated.outcome, least_retention_percent),
    }


def _budget(status: CompressionJobStatus, outcome: Outcome, least_utilization_percent: int) -> Fact:
    if outcome is Outcome.BUDGET_NOT_MET:
        missed = [limit for limit in status.budget_report if limit.met is False]
        words = "; ".join(
            f"{limit.name} is {limit.measured} {limit.unit}, the limit is {limit.limit}"
            for limit in missed
        )
        return _false(ConditionReason.BUDGET_NOT_MET, words)
    used = [
        limit.utilization_percent
        for limit in status.budget_report
        if limit.utilization_percent is not None
    ]
    words = f"{max(used)} % of the tightest limit is used" if used else ""
    if used and max(used) < least_utilization_percent:
        words += (
            f", less than budget.minUtilizationPercent = {least_utilization_percent}: the model "
            "could be larger"
        )
    return _true(ConditionReason.BUDGET_MET, f"{words}." if words else "")


def _quality(status: CompressionJobStatus, outcome: Outcome, least_retention_percent: int) -> Fact:
    quality = status.quality
    if quality is None:
        return _unmeasured()
    met = outcome is not Outcome.QUALITY_NOT_MET
    if outcome is Outcome.BUDGET_NOT_MET:
        met = float(quality.retention_percent) >= least_retention_percent
    words = f"{quality.retention_percent} % of the parent's score on suite {quality.suite} is kept"
    words += f", {least_retention_percent} % is asked for."
    if met:
        return _true(ConditionReason.QUALITY_MET, words)
    return _false(ConditionReason.QUALITY_NOT_MET, words)


def _unmeasured() -> Fact:
    return Fact(status=ConditionStatus.UNKNOWN, reason=ConditionReason.NOT_MEASURED)


def _true(reason: Reason, message: str = "") -> Fact:
    return Fact(status=ConditionStatus.TRUE, reason=reason, message=message)


def _false(reason: Reason, message: str = "") -> Fact:
    return Fact(status=ConditionStatus.FALSE, reason=reason, message=message)
