"""A compression job as a value: what the stages read, in base units."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from autocompress.domain.budget import Budget
from autocompress.domain.deployment import Target, Workload


class SearchMethod(StrEnum):
    """How an architecture is chosen."""

    AUTOCOMPRESS = "AutoCompress"


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelSource:
    """Where the parent comes from: ``file://``, ``s3://``, ``hf://`` or ``package:``."""

    uri: str
    revision: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class QualitySettings:
    """``suite``: a name known to ``evaluation``; ``limit``: items per task, ``None`` for all."""

    suite: str = "default"
    limit: int | None = None
    min_retention_percent: int = 90


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchSettings:
    """Supernet and router training. ``step_tokens`` are tokens of one optimizer step.

    The tuples restrict the search space; empty means the default choices for the parent.
    """

    method: SearchMethod = SearchMethod.AUTOCOMPRESS
    steps: int = 200
    step_tokens: int = 512
    sequence_tokens: int = 256
    seed: int = 7
    learning_rate: float = 1e-4
    router_learning_rate: float = 0.2
    calibration_tokens: int = 32768
    hidden_sizes: tuple[int, ...] = ()
    intermediate_sizes: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class RecoverySettings:
    """Distillation of the chosen model. ``tokens`` in all, ``step_tokens`` per optimizer step."""

    tokens: int = 100_352
    step_tokens: int = 512
    sequence_tokens: int = 256
    learning_rate: float = 3e-4
    seed: int = 7
    checkpoint_every_steps: int = 25


@dataclass(frozen=True, kw_only=True, slots=True)
class TextSettings:
    """Text for calibration, training and held-out loss; ``uri`` None is the built-in set."""

    uri: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """Everything that decides a result. How stages are run (images, retries) is not in it."""

    name: str
    source: ModelSource
    target: Target
    workload: Workload
    budget: Budget
    quality: QualitySettings = field(default_factory=QualitySettings)
    search: SearchSettings = field(default_factory=SearchSettings)
    recovery: RecoverySettings = field(default_factory=RecoverySettings)
    text: TextSettings = field(default_factory=TextSettings)
