"""``spec.recovery``: how the chosen model is distilled, and by what on a cluster."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import model_validator

from autocompress.api.v1alpha1.fields import (
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

RecoveryEngine = Annotated[Literal["Job"], Give("Job, the one recovery engine of this version")]
Nodes = Annotated[Literal[1], Give("1: recovery on several nodes is not in this version")]


class RecoverySpec(Spec):
    """Distillation from the parent over ``tokens`` in all."""

    engine: RecoveryEngine = "Job"
    nodes: Nodes = 1
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
