"""``spec.recovery``: how the chosen model is distilled, and by what on a cluster."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from autocompress.api.v1alpha1.fields import (
    DnsName,
    Give,
    ManyTokens,
    Rate,
    Seed,
    Spec,
    Steps,
    Tokens,
    refuse,
)
from autocompress.api.v1alpha1.search import whole_sequences
from autocompress.domain.job import RecoverySettings

_DEFAULT = RecoverySettings()

Nodes = Annotated[int, Field(ge=1, le=64), Give("a whole number of nodes from 1 to 64")]


class RecoveryEngine(StrEnum):
    """What runs recovery on a cluster."""

    JOB = "Job"
    JOB_SET = "JobSet"
    TRAIN_JOB = "TrainJob"


class RuntimeKind(StrEnum):
    """Where a training runtime is defined: for the cluster or in the job's namespace."""

    CLUSTER_TRAINING_RUNTIME = "ClusterTrainingRuntime"
    TRAINING_RUNTIME = "TrainingRuntime"


class RuntimeRef(Spec):
    """The training runtime of a TrainJob."""

    name: DnsName
    kind: RuntimeKind = RuntimeKind.CLUSTER_TRAINING_RUNTIME


class RecoverySpec(Spec):
    """Distillation from the parent over ``tokens`` in all."""

    engine: RecoveryEngine = RecoveryEngine.JOB
    nodes: Nodes = 1
    runtime_ref: RuntimeRef | None = None
    tokens: ManyTokens = _DEFAULT.tokens
    step_tokens: Tokens = _DEFAULT.step_tokens
    sequence_tokens: Tokens = _DEFAULT.sequence_tokens
    learning_rate: Rate = str(_DEFAULT.learning_rate)
    seed: Seed = _DEFAULT.seed
    checkpoint_every_steps: Steps = _DEFAULT.checkpoint_every_steps

    @model_validator(mode="after")
    def _whole_steps(self) -> Self:
        faults = whole_sequences(self.step_tokens, self.sequence_tokens)
        if self.tokens < self.step_tokens:
            faults["tokens"] = (
                f"got {self.tokens}; give at least one step, stepTokens = {self.step_tokens}"
            )
        refuse(faults)
        return self

    @model_validator(mode="after")
    def _runtime(self) -> Self:
        of_train_job = self.engine is RecoveryEngine.TRAIN_JOB
        if of_train_job and self.runtime_ref is None:
            refuse({"runtimeRef": "is missing; engine TrainJob needs the name of its runtime"})
        if self.runtime_ref is not None and not of_train_job:
            refuse({"runtimeRef": f"does not apply to engine {self.engine}; leave it out"})
        return self

    def to_domain(self) -> RecoverySettings:
        """As the stages see it."""
        return RecoverySettings(
            tokens=self.tokens,
            step_tokens=self.step_tokens,
            sequence_tokens=self.sequence_tokens,
            learning_rate=float(self.learning_rate),
            seed=self.seed,
            checkpoint_every_steps=self.checkpoint_every_steps,
        )
