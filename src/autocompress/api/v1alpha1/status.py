"""``status`` of a CompressionJob: all that the operator remembers, and what pipelines wait on."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    StringConstraints,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel

from autocompress.api.v1alpha1.running import StageName, StepName
from autocompress.contract.stage import Outcome


class ConditionType(StrEnum):
    """All conditions, present from the first visit on."""

    READY = "Ready"
    RECONCILING = "Reconciling"
    STALLED = "Stalled"
    SUCCEEDED = "Succeeded"
    SUSPENDED = "Suspended"
    ADMITTED = "Admitted"
    TARGET_AVAILABLE = "TargetAvailable"
    ARTIFACTS_ACCESSIBLE = "ArtifactsAccessible"
    BUDGET_MET = "BudgetMet"
    QUALITY_MET = "QualityMet"


class ConditionStatus(StrEnum):
    """Whether a condition holds."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class FailureReason(StrEnum):
    """Why an attempt at a stage failed, or why it cannot start; the closed list."""

    OOM_KILLED = "OOMKilled"
    IMAGE_PULL_ERROR = "ImagePullError"
    CONTAINER_START_ERROR = "ContainerStartError"
    CONTAINER_CRASHED = "ContainerCrashed"
    CREDENTIALS_MISSING = "CredentialsMissing"
    CREDENTIALS_INVALID = "CredentialsInvalid"
    BUCKET_NOT_FOUND = "BucketNotFound"
    ENDPOINT_UNREACHABLE = "EndpointUnreachable"
    BAD_DATA = "BadData"
    ENGINE_FAILED = "EngineFailed"
    DISK_FULL = "DiskFull"
    EVICTED = "Evicted"
    PREEMPTED = "Preempted"
    NODE_LOST = "NodeLost"
    NODE_DISK_PRESSURE = "NodeDiskPressure"
    NODE_MEMORY_PRESSURE = "NodeMemoryPressure"
    UNSCHEDULABLE = "Unschedulable"
    NO_MATCHING_NODE = "NoMatchingNode"
    MIG_MISMATCH = "MigMismatch"
    QUOTA_EXCEEDED = "QuotaExceeded"
    POD_SECURITY_VIOLATION = "PodSecurityViolation"
    CREATE_FAILED = "CreateFailed"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    BUDGET_INFEASIBLE = "BudgetInfeasible"
    INVALID_SPEC = "InvalidSpec"
    CONDITIONS_UNSTABLE = "ConditionsUnstable"
    ENGINE_NOT_INSTALLED = "EngineNotInstalled"
    ENGINE_CHECK_FAILED = "EngineCheckFailed"
    INTERNAL_ERROR = "InternalError"


class ConditionReason(StrEnum):
    """Reasons of conditions that are not themselves failures of an attempt.

    A condition's reason is one of these or a ``FailureReason``.
    """

    #: Not known yet: the first visit.
    PENDING = "Pending"

    #: Reconciling, and Ready until the end.
    PREFLIGHT_RUNNING = "PreflightRunning"
    STAGE_PENDING = "StagePending"
    STAGE_RUNNING = "StageRunning"
    STAGE_RETRYING = "StageRetrying"
    STOPPING = "Stopping"
    FINISHED = "Finished"

    #: Stalled=False.
    NOT_STALLED = "NotStalled"

    #: Succeeded, Ready and Stalled at the end, with the failure reasons BudgetInfeasible,
    #: DeadlineExceeded, InvalidSpec and EngineNotInstalled.
    SUCCEEDED = "Succeeded"
    BUDGET_ALREADY_MET = "BudgetAlreadyMet"
    BUDGET_NOT_MET = "BudgetNotMet"
    QUALITY_NOT_MET = "QualityNotMet"
    PREFLIGHT_FAILED = "PreflightFailed"
    STAGE_FAILED = "StageFailed"

    #: Suspended.
    SUSPENDED_BY_SPEC = "SuspendedBySpec"
    SUSPENDED_BY_QUEUE = "SuspendedByQueue"
    NOT_SUSPENDED = "NotSuspended"

    #: Admitted, with QuotaExceeded and Preempted.
    NOT_QUEUED = "NotQueued"
    WAITING_FOR_QUOTA = "WaitingForQuota"
    ADMITTED = "Admitted"

    #: TargetAvailable, with NoMatchingNode and MigMismatch.
    NODE_FOUND = "NodeFound"

    #: ArtifactsAccessible, with CredentialsMissing, CredentialsInvalid, BucketNotFound,
    #: EndpointUnreachable.
    PROBE_SUCCEEDED = "ProbeSucceeded"
    PREFLIGHT_DISABLED = "PreflightDisabled"

    #: BudgetMet and QualityMet, with BudgetNotMet and QualityNotMet.
    NOT_MEASURED = "NotMeasured"
    BUDGET_MET = "BudgetMet"
    QUALITY_MET = "QualityMet"


class StageState(StrEnum):
    """How far a stage is."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


def decimal_text(value: float) -> str:
    """A number as status holds it: plain decimals, at most six places, no trailing zeros.

    Raises:
        ValueError: not a finite number.
    """
    number = Decimal(repr(value))
    if not number.is_finite():
        raise ValueError(f"{value} is not a finite number")
    text = f"{number:.6f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def time_text(time: datetime) -> str:
    """A time as Kubernetes writes it: UTC, whole seconds."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _whole_seconds(time: datetime) -> datetime:
    return time.astimezone(UTC).replace(microsecond=0)


MESSAGE_CHARACTERS = 1024

Number = Annotated[str, StringConstraints(max_length=32, pattern=r"^-?[0-9]+(\.[0-9]+)?$")]
"""A number as decimal text, made by ``decimal_text``."""

Digest = Annotated[str, StringConstraints(max_length=128)]
Uri = Annotated[str, StringConstraints(max_length=1024)]
Message = Annotated[str, StringConstraints(max_length=MESSAGE_CHARACTERS)]
ShortName = Annotated[str, StringConstraints(max_length=253)]
Whole = Annotated[int, Field(ge=0, le=1 << 53)]
WholePercent = Annotated[int, Field(ge=0, le=1_000_000)]
Time = Annotated[
    AwareDatetime,
    AfterValidator(_whole_seconds),
    PlainSerializer(time_text),
    WithJsonSchema({"type": "string", "format": "date-time", "maxLength": 64}),
]

#: The cluster's schema bounds the text and not the list: a reason may be newer than it.
Reason = Annotated[
    ConditionReason | FailureReason,
    WithJsonSchema({"type": "string", "maxLength": 64, "pattern": "^[A-Za-z]+$"}),
]


class StatusPart(BaseModel):
    """A part of status: camelCase names; what a newer operator wrote beside it is ignored."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        extra="ignore",
        frozen=True,
        serialize_by_alias=True,
    )


class Condition(StatusPart):
    """As every Kubernetes object has it; ``last_transition_time`` moves only with ``status``."""

    type: ConditionType
    status: ConditionStatus
    observed_generation: Whole
    last_transition_time: Time
    reason: Reason
    message: Message = ""


class JobRef(StatusPart):
    """The object that runs an attempt: a Job, JobSet or TrainJob."""

    api_version: ShortName
    kind: Annotated[str, StringConstraints(max_length=63)]
    name: ShortName


class StageOutputs(StatusPart):
    """The stage's artifact in the store."""

    manifest_uri: Uri
    digest: Digest


class Failure(StatusPart):
    """The last attempt that failed; the message says what to do."""

    reason: FailureReason
    message: Message = ""
    exit_code: Annotated[int, Field(ge=0, le=255)] | None = None
    pod: ShortName | None = None
    node: ShortName | None = None


class Progress(StatusPart):
    """As the stage's pod reports it."""

    percent: Annotated[int, Field(ge=0, le=100)]
    estimated_remaining_seconds: Whole | None = None


class Attempts(StatusPart):
    """The attempts at a piece of work: where it stands, what runs it, how it went wrong."""

    state: StageState = StageState.PENDING
    attempt: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    input_digest: Digest | None = None
    job_ref: JobRef | None = None
    start_time: Time | None = None
    completion_time: Time | None = None
    last_failure: Failure | None = None


class StageStatus(Attempts):
    """One of the four stages; ``outcome`` and ``message`` are those of a success."""

    name: StageName
    outcome: Outcome | None = None
    message: Message | None = None
    outputs: StageOutputs | None = None
    progress: Progress | None = None


class Resolved(StatusPart):
    """What the spec left open; spec itself is never written."""

    source_revision: Annotated[str, StringConstraints(max_length=256)] | None = None
    accelerator_product: Annotated[str, StringConstraints(max_length=63)] | None = None
    #: What the measurement was made on.
    node: ShortName | None = None
    driver_version: Annotated[str, StringConstraints(max_length=63)] | None = None
    cuda_version: Annotated[str, StringConstraints(max_length=63)] | None = None
    #: What each stage ran, by digest where the node told it.
    images: Annotated[dict[StageName, Uri], Field(max_length=4)] = Field(default_factory=dict)


class LimitStatus(StatusPart):
    """One limit of the budget against what was predicted and measured, all in ``unit``."""

    name: Annotated[str, StringConstraints(max_length=63)]
    unit: Literal["ms", "bytes", "tokens/s"]
    limit: Number
    predicted: Number | None = None
    measured: Number | None = None
    met: bool | None = None
    utilization_percent: WholePercent | None = None


class TaskStatus(StatusPart):
    """Accuracy on one benchmark, as fractions."""

    name: Annotated[str, StringConstraints(max_length=63)]
    baseline: Number
    measured: Number
    standard_error: Number | None = None


class QualityStatus(StatusPart):
    """Mean accuracy of parent and compressed model, as fractions, and the share kept."""

    suite: Annotated[str, StringConstraints(max_length=63)]
    baseline: Number
    measured: Number
    retention_percent: Number
    tasks: Annotated[tuple[TaskStatus, ...], Field(max_length=32)] = ()


class Cost(StatusPart):
    """What was spent."""

    device_hours: Number
    wall_seconds: Whole
    tokens: Whole = 0
    engine_starts: Whole = 0
    bytes_moved: Whole = 0


class StageCost(Cost):
    """What one stage spent."""

    name: StageName


class JobCost(Cost):
    """What the job spent, all stages together and each for itself."""

    stages: Annotated[tuple[StageCost, ...], Field(max_length=4)] = ()


class Result(StatusPart):
    """The published model."""

    model_uri: Uri
    digest: Digest
    manifest_uri: Uri


class CompressionJobStatus(StatusPart):
    """The whole of ``status``.

    ``current_stage`` is for display: nothing branches on it. ``start_time`` is when work first
    began (what a deadline is counted from), ``completion_time`` when the last condition became
    final (what the time to live is counted from).
    """

    observed_generation: Whole | None = None
    last_handled_retry_at: Annotated[str, StringConstraints(max_length=256)] | None = None
    current_stage: StepName | None = None
    start_time: Time | None = None
    completion_time: Time | None = None
    resolved: Resolved | None = None
    preflight: Attempts | None = None
    stages: Annotated[tuple[StageStatus, ...], Field(max_length=4)] = ()
    budget_report: Annotated[tuple[LimitStatus, ...], Field(max_length=16)] = ()
    quality: QualityStatus | None = None
    cost: JobCost | None = None
    result: Result | None = None
    conditions: Annotated[tuple[Condition, ...], Field(max_length=16)] = ()

    def condition(self, type_: ConditionType) -> Condition | None:
        """The condition of a type; none before the first visit."""
        return next((found for found in self.conditions if found.type is type_), None)

    def stage(self, name: StageName) -> StageStatus | None:
        """Where a stage stands; none before the first visit."""
        return next((found for found in self.stages if found.name is name), None)
