"""Errors that reach a user, each with its exit code and a reason from a closed list."""

from __future__ import annotations

from enum import IntEnum, StrEnum


class ExitCode(IntEnum):
    """Exit codes of the command line and of every stage."""

    DONE = 0
    BAD_SPEC = 64
    BAD_DATA = 65
    UNAVAILABLE = 69
    ENGINE_FAILED = 70
    DISK_FULL = 74
    TRY_LATER = 75
    ACCESS_REFUSED = 77
    INFEASIBLE = 78
    STOPPED = 143


class Reason(StrEnum):
    """Why something failed."""

    INVALID_SPEC = "InvalidSpec"
    ENGINE_CHECK_FAILED = "EngineCheckFailed"
    BAD_DATA = "BadData"
    ENDPOINT_UNREACHABLE = "EndpointUnreachable"
    ENGINE_FAILED = "EngineFailed"
    INTERNAL_ERROR = "InternalError"
    DISK_FULL = "DiskFull"
    CONDITIONS_UNSTABLE = "ConditionsUnstable"
    CREDENTIALS_INVALID = "CredentialsInvalid"
    BUCKET_NOT_FOUND = "BucketNotFound"
    BUDGET_INFEASIBLE = "BudgetInfeasible"
    STOPPED = "Stopped"


class AutocompressError(Exception):
    """An error with a message for the user: what was given, and what would be right."""

    exit_code: ExitCode = ExitCode.ENGINE_FAILED
    reason: Reason = Reason.INTERNAL_ERROR

    def __init__(self, message: str, *, reason: Reason | None = None) -> None:
        super().__init__(message)
        if reason is not None:
            self.reason = reason


class SpecError(AutocompressError):
    """The job is wrong; every fault is in the message, a line each."""

    exit_code = ExitCode.BAD_SPEC
    reason = Reason.INVALID_SPEC


class DataError(AutocompressError):
    """A model, checkpoint, tokenizer or text cannot be used."""

    exit_code = ExitCode.BAD_DATA
    reason = Reason.BAD_DATA


class UnavailableError(AutocompressError):
    """Storage or network cannot be reached now."""

    exit_code = ExitCode.UNAVAILABLE
    reason = Reason.ENDPOINT_UNREACHABLE


class EngineError(AutocompressError):
    """The serving engine failed; its own last lines are in the message."""

    exit_code = ExitCode.ENGINE_FAILED
    reason = Reason.ENGINE_FAILED


class DiskFullError(AutocompressError):
    """No space is left where the work is done."""

    exit_code = ExitCode.DISK_FULL
    reason = Reason.DISK_FULL


class TryLaterError(AutocompressError):
    """The device is busy or measurements vary too much."""

    exit_code = ExitCode.TRY_LATER
    reason = Reason.CONDITIONS_UNSTABLE


class AccessError(AutocompressError):
    """Credentials were refused, or the bucket does not exist."""

    exit_code = ExitCode.ACCESS_REFUSED
    reason = Reason.CREDENTIALS_INVALID


class InfeasibleError(AutocompressError):
    """No architecture of the search space fits the budget; the message says what is reachable."""

    exit_code = ExitCode.INFEASIBLE
    reason = Reason.BUDGET_INFEASIBLE


class StoppedError(AutocompressError):
    """Asked to stop; a checkpoint was written where there was something to keep."""

    exit_code = ExitCode.STOPPED
    reason = Reason.STOPPED
