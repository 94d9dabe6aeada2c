"""``spec.search``: how the architecture is chosen."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from autocompress.api.v1alpha1.budget import BudgetSpec
from autocompress.api.v1alpha1.fields import (
    Give,
    ManyTokens,
    Rate,
    Seed,
    Sizes,
    Spec,
    Steps,
    Tokens,
    refuse,
)
from autocompress.domain.job import SearchMethod, SearchSettings

_DEFAULT = SearchSettings()

Method = Annotated[
    Literal["AutoCompress"],
    Give("AutoCompress, the one search method of this version"),
]


class SearchSpec(Spec):
    """Supernet and router; sizes restrict the search space, without them it is the default one."""

    method: Method = "AutoCompress"
    steps: Steps = _DEFAULT.steps
    step_tokens: Tokens = _DEFAULT.step_tokens
    sequence_tokens: Tokens = _DEFAULT.sequence_tokens
    seed: Seed = _DEFAULT.seed
    learning_rate: Rate = str(_DEFAULT.learning_rate)
    router_learning_rate: Rate = str(_DEFAULT.router_learning_rate)
    calibration_tokens: ManyTokens = _DEFAULT.calibration_tokens
    hidden_sizes: Sizes = ()
    intermediate_sizes: Sizes = ()
    family_budgets: Annotated[tuple[BudgetSpec, ...], Field(max_length=16)] = ()

    @model_validator(mode="after")
    def _whole_sequences(self) -> Self:
        refuse(whole_sequences(self.step_tokens, self.sequence_tokens))
        return self

    def to_domain(self) -> SearchSettings:
        """As the stages see it; sizes descend and are told once."""
        return SearchSettings(
            method=SearchMethod(self.method),
            steps=self.steps,
            step_tokens=self.step_tokens,
            sequence_tokens=self.sequence_tokens,
            seed=self.seed,
            learning_rate=float(self.learning_rate),
            router_learning_rate=float(self.router_learning_rate),
            calibration_tokens=self.calibration_tokens,
            hidden_sizes=tuple(sorted(set(self.hidden_sizes), reverse=True)),
            intermediate_sizes=tuple(sorted(set(self.intermediate_sizes), reverse=True)),
        )


def whole_sequences(step_tokens: int, sequence_tokens: int) -> dict[str, str]:
    """The fault of a step that is not made of whole sequences, if it is one."""
    if step_tokens % sequence_tokens == 0:
        return {}
    below = step_tokens // sequence_tokens * sequence_tokens
    return {
        "stepTokens": f"got {step_tokens}; give a multiple of sequenceTokens = {sequence_tokens}, "
        f"for example {below or sequence_tokens}"
    }
