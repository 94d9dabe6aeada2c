"""What stages leave behind for people: errors, traces, curves, the scorecard."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autocompress.domain.architecture import Architecture
from autocompress.domain.costs import LimitVerdict, MeasuredCosts, PredictedCosts


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldOutPoint:
    """One whole architecture that took no part in the fit. Times in seconds, memory in bytes."""

    architecture: Architecture
    predicted_prefill_seconds: float
    measured_prefill_seconds: float
    predicted_decode_seconds: float
    measured_decode_seconds: float
    predicted_memory_bytes: float
    measured_memory_bytes: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorSummary:
    """Relative errors, |predicted - measured| / measured."""

    median: float
    worst: float


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldOutReport:
    """How far the cost model is from architectures that it never saw."""

    points: tuple[HeldOutPoint, ...]
    prefill: ErrorSummary
    decode: ErrorSummary
    memory: ErrorSummary
    decode_rank_correlation: float


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchStep:
    """One router update. ``utilization``: expected cost over limit, per limit name."""

    step: int
    distillation_loss: float
    penalty: float
    temperature: float
    utilization: Mapping[str, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchTrace:
    """The whole search; ``argmax`` is what the router chose before repair."""

    steps: tuple[SearchStep, ...]
    argmax: Architecture
    argmax_utilization: Mapping[str, float]
    chosen: Architecture
    chosen_utilization: Mapping[str, float]
    repair_moves: tuple[str, ...]
    tokens: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RecoveryPoint:
    """State after ``tokens``; losses in nats per token (forward KL), learning rate as applied.

    ``validation_loss`` is None where only the training loss was read.
    """

    step: int
    tokens: int
    training_loss: float
    validation_loss: float | None
    learning_rate: float


@dataclass(frozen=True, kw_only=True, slots=True)
class RecoveryCurve:
    """The distillation of the sliced model."""

    points: tuple[RecoveryPoint, ...]
    tokens: int


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskScore:
    """One benchmark: accuracy of parent, pruned (compressed, before recovery) and compressed model,
    with standard errors and item count. ``chance`` is what guessing scores.
    """

    name: str
    metric: str
    items: int
    chance: float
    parent: float
    parent_error: float
    pruned: float
    pruned_error: float
    compressed: float
    compressed_error: float


@dataclass(frozen=True, kw_only=True, slots=True)
class TextScore:
    """Bits per byte on one kind of held-out text (lower is better); ``tokens`` are those scored."""

    name: str
    bytes: int
    tokens: int
    parent: float
    pruned: float
    compressed: float

    def perplexity(self, bits_per_byte: float) -> float:
        """The same per token of this tokenizer: 2 ^ (bits per byte x bytes / tokens)."""
        return float(2 ** (bits_per_byte * self.bytes / self.tokens))


@dataclass(frozen=True, kw_only=True, slots=True)
class Quality:
    """``retention_percent`` is 100 x mean compressed score / mean parent score over the tasks."""

    suite: str
    tasks: tuple[TaskScore, ...]
    texts: tuple[TextScore, ...]
    parent_mean: float
    pruned_mean: float
    compressed_mean: float
    retention_percent: float
    retention_error_percent: float
    min_retention_percent: int
    met: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class StageCost:
    """What one stage took."""

    stage: str
    wall_seconds: float
    peak_memory_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Scorecard:
    """The result of a job, measured on the target."""

    job: str
    source_uri: str
    source_revision: str
    parent: Architecture
    compressed: Architecture
    parent_parameters: int
    compressed_parameters: int
    precision: str
    device: str
    engine: str
    engine_version: str
    prompt_tokens: int
    output_tokens: int
    concurrency: int
    requests: int
    request_set_digest: str
    export_format: str
    parent_costs: MeasuredCosts
    compressed_costs: MeasuredCosts
    predicted_costs: PredictedCosts
    limits: tuple[LimitVerdict, ...]
    budget_met: bool
    min_utilization_percent: int
    quality: Quality
    model_digest: str
    notes: tuple[str, ...] = ()
