"""The router: logits for every choice, softened by Gumbel noise whose temperature falls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from autocompress.domain.space import AttentionChoices, SearchSpace
from autocompress.supernet.choices import (
    SoftAttention,
    SoftBlock,
    SoftChoices,
    SoftMlp,
    candidate_probabilities,
)

#: How much likelier than another choice the parent's own size is at the start, in nats.
FULL_SIZE_LEAD = 3.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Annealing:
    """Temperature (geometric) and logit scale (linear) from the first step to the last, after
    Nemotron Elastic (2511.16664).
    """

    first_temperature: float = 1.0
    last_temperature: float = 0.05
    first_scale: float = 1.0
    last_scale: float = 4.0

    def temperature(self, progress: float) -> float:
        """At ``progress`` in 0..1."""
        ratio = self.last_temperature / self.first_temperature
        return float(self.first_temperature * ratio**progress)

    def scale(self, progress: float) -> float:
        """At ``progress`` in 0..1."""
        return self.first_scale + (self.last_scale - self.first_scale) * progress


class Router(nn.Module):
    """One logit vector per axis: hidden size, and per block its sizes and whether it is kept.

    There is one target per run, hence no input: a table of logits is a router of a constant.
    """

    def __init__(self, space: SearchSpace) -> None:
        super().__init__()
        self.space = space
        self.hidden_size = _logits(len(space.hidden_size))
        self.axes = nn.ModuleList()
        for choices in space.blocks:
            sizes = (
                {
                    "kv_heads": len(choices.kv_heads),
                    "queries_per_group": len(choices.queries_per_group),
                }
                if isinstance(choices, AttentionChoices)
                else {"intermediate_size": len(choices.intermediate_size)}
            )
            axes = {name: _logits(count) for name, count in sizes.items()}
            axes["keep"] = _logits(2 if choices.may_skip else 1)
            self.axes.append(nn.ParameterDict(axes))

    def sample(self, temperature: float, scale: float, generator: torch.Generator) -> SoftChoices:
        """Probabilities under fresh Gumbel noise; gradients reach every logit."""

        def soften(logits: Tensor) -> Tensor:
            uniform = torch.rand(logits.shape, generator=generator).clamp_min(1e-9)
            noise = -torch.log(-torch.log(uniform))
            return torch.softmax((logits * scale + noise) / temperature, dim=-1)

        return self._choices(soften)

    def probabilities(self) -> SoftChoices:
        """Without noise, at temperature and scale 1."""
        return self._choices(lambda logits: torch.softmax(logits, dim=-1))

    def scores(self) -> tuple[NDArray[np.float64], list[NDArray[np.float64]]]:
        """Log-probabilities of hidden sizes ``[H]``, and of every block's candidates ``[C]``."""
        with torch.no_grad():
            soft = self.probabilities()
            blocks = [
                candidate_probabilities(block, choices).double().clamp_min(1e-12).log().numpy()
                for block, choices in zip(soft.blocks, self.space.blocks, strict=True)
            ]
            return soft.hidden_size.double().clamp_min(1e-12).log().numpy(), blocks

    def _choices(self, soften: Callable[[Tensor], Tensor]) -> SoftChoices:
        blocks: list[SoftBlock] = []
        for axes in self.axes:
            assert isinstance(axes, nn.ParameterDict)
            soft = {name: soften(logits) for name, logits in axes.items()}
            keep = soft["keep"][0]
            if "kv_heads" in soft:
                blocks.append(
                    SoftAttention(
                        kv_heads=soft["kv_heads"],
                        queries_per_group=soft["queries_per_group"],
                        keep=keep,
                    )
                )
            else:
                blocks.append(SoftMlp(intermediate_size=soft["intermediate_size"], keep=keep))
        return SoftChoices(hidden_size=soften(self.hidden_size), blocks=tuple(blocks))


def _logits(count: int) -> nn.Parameter:
    start = torch.zeros(count)
    start[0] = FULL_SIZE_LEAD
    return nn.Parameter(start)
