"""What a stage leaves in its pod's termination message: its result, or its fault.

A runner knows a stage by exit code and this message alone; it reads neither logs nor the store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autocompress.contract.errors import Reason
from autocompress.contract.stage import Outcome

#: What a kubelet keeps of a termination message.
MAX_BYTES = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class LimitReport:
    """One limit of the budget, in the unit of ``unit`` (ms, bytes or tokens/s).

    ``measured`` and ``met`` are None until validation.
    """

    name: str
    unit: str
    limit: float
    predicted: float
    measured: float | None = None
    met: bool | None = None
    utilization_percent: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskReport:
    """Accuracy of parent (``baseline``) and compressed model on one benchmark, as fractions."""

    name: str
    baseline: float
    measured: float
    standard_error: float


@dataclass(frozen=True, kw_only=True, slots=True)
class QualityReport:
    """Mean accuracies, as fractions, and the share kept."""

    suite: str
    baseline: float
    measured: float
    retention_percent: float
    tasks: tuple[TaskReport, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class CostReport:
    """What a stage took."""

    wall_seconds: float
    device_hours: float
    tokens: int
    engine_starts: int
    bytes_moved: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelReport:
    """The published model: where it is, and the digest it is published under."""

    uri: str
    manifest_uri: str
    digest: str


@dataclass(frozen=True, kw_only=True, slots=True)
class StageReport:
    """A finished stage. ``stage`` is the stage's value, or ``preflight`` or ``cleanup``.

    ``input_digest``, ``output_digest`` and ``manifest_uri`` identify its artifact in the store;
    they are empty for preflight and cleanup.
    """

    stage: str
    outcome: Outcome
    message: str
    source_revision: str = ""
    input_digest: str = ""
    output_digest: str = ""
    manifest_uri: str = ""
    figures: Mapping[str, float | int | str] = field(default_factory=dict)
    budget: tuple[LimitReport, ...] = ()
    quality: QualityReport | None = None
    model: ModelReport | None = None
    cost: CostReport | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class StageFault:
    """Why a stage failed; the exit code says whether a retry makes sense."""

    stage: str
    reason: Reason
    message: str
