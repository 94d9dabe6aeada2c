"""Whether the model of a job may be served: every verdict is looked at, none is assumed. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from autocompress.api.names import ANNOTATION_RETRY_AT
from autocompress.api.v1alpha1.status import (
    Condition,
    ConditionReason,
    ConditionStatus,
    ConditionType,
    LimitStatus,
    QualityStatus,
    Result,
)
from autocompress.contract.errors import ExitCode
from autocompress.promote.job_object import JobObject

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class RefusedError(Exception):
    """The model may not be served (yet): the condition's reason, its message, what to do.

    ``exit_code`` is TRY_LATER while the job may still get there, else BAD_DATA.
    """

    def __init__(self, reason: str, message: str, *, exit_code: ExitCode) -> None:
        super().__init__(message)
        self.reason = reason
        self.exit_code = exit_code


@dataclass(frozen=True, kw_only=True, slots=True)
class Proven:
    """What may be served, and the measurements that say so."""

    result: Result
    limits: tuple[LimitStatus, ...]
    quality: QualityStatus


def prove(found: JobObject) -> Proven:
    """The model of a job that ended well, with its figures.

    Raises:
        RefusedError: budget or quality are not proven for the spec as it stands.
    """
    _require_current(found)
    _require_success(found)
    return Proven(result=_published(found), limits=_met_limits(found), quality=_met_quality(found))


def _require_current(found: JobObject) -> None:
    status = found.status
    if found.deleting:
        raise _refused(
            "Deleting", f"{_named(found)} is being deleted", "promote another job's model"
        )
    if not status.conditions:
        raise _not_yet(
            ConditionReason.PENDING,
            f"no operator has looked at {_named(found)} yet",
            "check that the operator runs (kubectl get pods -A -l "
            "app.kubernetes.io/name=autocompress), then promote again",
        )
    if (status.observed_generation or 0) < found.generation:
        raise _not_yet(
            ConditionReason.PENDING,
            f"the status of {_named(found)} is about generation {status.observed_generation}, the "
            f"spec is at {found.generation}",
            "promote again when the operator has caught up",
        )


def _require_success(found: JobObject) -> None:
    succeeded = found.status.condition(ConditionType.SUCCEEDED)
    ready = found.status.condition(ConditionType.READY)
    if succeeded is None or succeeded.status is ConditionStatus.UNKNOWN:
        suspended = found.status.condition(ConditionType.SUSPENDED)
        if suspended is not None and suspended.status is ConditionStatus.TRUE:
            raise _not_yet(suspended.reason, _told(found, suspended), _resume(found, suspended))
        reconciling = found.status.condition(ConditionType.RECONCILING)
        condition = reconciling or ready
        raise _not_yet(
            condition.reason if condition else ConditionReason.PENDING,
            _told(found, condition) if condition else f"{_named(found)} has not ended",
            f"wait for it: kubectl wait -n {found.namespace} --for=condition=Ready "
            f"--timeout=24h compressionjob/{found.name}",
        )
    if succeeded.status is ConditionStatus.FALSE:
        raise _refused(succeeded.reason, _told(found, succeeded), _remedy(found, succeeded.reason))
    if succeeded.reason is ConditionReason.BUDGET_ALREADY_MET:
        raise _refused(
            succeeded.reason,
            _told(found, succeeded),
            "serve the parent itself, or apply a job with a tighter budget",
        )
    if ready is None or ready.status is not ConditionStatus.TRUE:
        raise _not_yet(
            ready.reason if ready else ConditionReason.PENDING,
            _told(found, ready) if ready else f"{_named(found)} has no condition Ready",
            "promote again when it is Ready",
        )


def _published(found: JobObject) -> Result:
    result = found.status.result
    if result is None:
        raise _broken(found, "result is missing")
    if not _DIGEST.fullmatch(result.digest):
        raise _broken(found, f"result.digest is {result.digest!r}, not sha256: and 64 digits")
    if not result.model_uri.startswith("s3://"):
        raise _refused(
            "NotReachable",
            f"the model of {_named(found)} is at {result.model_uri}, where serving pods cannot "
            "get at it",
            "apply the job with artifacts.uri: s3://bucket/prefix",
        )
    hexadecimal = result.digest.removeprefix("sha256:")
    if hexadecimal not in result.model_uri.split("/"):
        raise _broken(
            found, f"result.modelUri {result.model_uri} does not hold the digest {result.digest}"
        )
    return result


def _met_limits(found: JobObject) -> tuple[LimitStatus, ...]:
    _require_true(found, ConditionType.BUDGET_MET)
    reported = {limit.name: limit for limit in found.status.budget_report}
    asked = [limit.name for limit in found.job.spec.budget.to_domain().limits]
    for name in asked:
        limit = reported.get(name)
        if limit is None or limit.measured is None:
            raise _broken(found, f"budgetReport has no measurement of {name}")
        if limit.met is not True:
            raise _refused(
                ConditionReason.BUDGET_NOT_MET,
                f"{_named(found)}: {name} measured {limit.measured} {limit.unit}, limit "
                f"{limit.limit} {limit.unit}",
                _remedy(found, ConditionReason.BUDGET_NOT_MET),
            )
    return tuple(reported[name] for name in asked)


def _met_quality(found: JobObject) -> QualityStatus:
    _require_true(found, ConditionType.QUALITY_MET)
    quality = found.status.quality
    if quality is None:
        raise _broken(found, "quality is missing")
    floor = found.job.spec.quality.min_retention_percent
    if Decimal(quality.retention_percent) < floor:
        raise _refused(
            ConditionReason.QUALITY_NOT_MET,
            f"{_named(found)}: {quality.retention_percent} % of the parent's quality kept, at "
            f"least {floor} % was asked",
            _remedy(found, ConditionReason.QUALITY_NOT_MET),
        )
    return quality


def _require_true(found: JobObject, type_: ConditionType) -> None:
    condition = found.status.condition(type_)
    if condition is None or condition.status is not ConditionStatus.TRUE:
        told = _told(found, condition) if condition else f"{_named(found)} has no condition {type_}"
        reason = condition.reason if condition else ConditionReason.NOT_MEASURED
        raise _refused(reason, told, "run the job again; a model is promoted on measurements only")


def _remedy(found: JobObject, reason: str) -> str:
    """What to do about a job that ended without a model."""
    if reason == ConditionReason.BUDGET_NOT_MET:
        return (
            "nothing was published and a spec's budget cannot change: apply a new job with a wider "
            "budget or a longer search"
        )
    if reason == ConditionReason.QUALITY_NOT_MET:
        return (
            "nothing was published: apply a new job with more recovery.tokens, a wider budget or a "
            "lower quality.minRetentionPercent"
        )
    if reason == "BudgetInfeasible":
        return "apply a new job whose limits are at least what the message says is reachable"
    if reason == "InvalidSpec":
        return "apply a new job with the fields mended"
    return (
        f"mend it, then ask for another try: kubectl annotate -n {found.namespace} --overwrite "
        f"compressionjob/{found.name} {ANNOTATION_RETRY_AT}=$(date +%s)"
    )


def _resume(found: JobObject, suspended: Condition) -> str:
    if suspended.reason is ConditionReason.SUSPENDED_BY_QUEUE:
        return "wait until its queue admits it"
    return (
        f"resume it: kubectl patch -n {found.namespace} compressionjob/{found.name} --type merge "
        '-p \'{"spec":{"suspend":false}}\''
    )


def _named(found: JobObject) -> str:
    return f"compressionjob {found.namespace}/{found.name}"


def _told(found: JobObject, condition: Condition) -> str:
    message = f": {condition.message.rstrip('.')}" if condition.message else ""
    return f"{_named(found)} has {condition.type}={condition.status} ({condition.reason}){message}"


def _not_yet(reason: str, fact: str, remedy: str) -> RefusedError:
    return RefusedError(str(reason), f"{fact}; {remedy}", exit_code=ExitCode.TRY_LATER)


def _refused(reason: str, fact: str, remedy: str) -> RefusedError:
    return RefusedError(str(reason), f"{fact}; {remedy}", exit_code=ExitCode.BAD_DATA)


def _broken(found: JobObject, fact: str) -> RefusedError:
    return _refused(
        "InvalidStatus",
        f"{_named(found)}: status.{fact}",
        "status is written by the operator alone; do not edit it, and ask for another try",
    )
