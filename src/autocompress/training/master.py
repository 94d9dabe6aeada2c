"""AdamW on float32 copies of a model that computes in a shorter type.

Updates are far smaller than the spacing of bfloat16 numbers; they add up in the copies.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from autocompress.training import parallel


class NotFiniteError(ArithmeticError):
    """A gradient is infinite or not a number; nothing was updated."""


class MasterAdamW:
    """Owns the float32 copies, the moments, and the gradient norm limit."""

    def __init__(
        self,
        parameters: Mapping[str, nn.Parameter],
        *,
        betas: tuple[float, float] = (0.9, 0.95),
        max_gradient_norm: float = 1.0,
    ) -> None:
        self._parameters = dict(parameters)
        # A float32 parameter is its own master: the two share their storage.
        self._masters = {name: p.detach().float() for name, p in parameters.items()}
        self._max_gradient_norm = max_gradient_norm
        self._optimizer = torch.optim.AdamW(
            list(self._masters.values()), lr=0.0, betas=betas, weight_decay=0.0, fused=True
        )

    def step(self, learning_rate: float) -> float:
        """Clip, update the copies, round them into the model; returns the gradient norm.

        Gradients are those of all processes that train together.

        Raises:
            NotFiniteError: before anything is changed.
        """
        for name, parameter in self._parameters.items():
            gradient = parameter.grad
            self._masters[name].grad = None if gradient is None else gradient.float()
            parameter.grad = None
        masters = list(self._masters.values())
        if (peers := parallel.current()) is not None:
            peers.average([master.grad for master in masters if master.grad is not None])
        norm = float(torch.nn.utils.clip_grad_norm_(masters, self._max_gradient_norm))
        if not torch.isfinite(torch.tensor(norm)):
            raise NotFiniteError(f"the gradient norm is {norm}")
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate
        self._optimizer.step()
        self._round_into_model()
        return norm

    def state(self) -> dict[str, Tensor]:
        """Everything an exact continuation needs, as named tensors."""
        tensors: dict[str, Tensor] = {}
        for name, master in self._masters.items():
            tensors[f"master.{name}"] = master
            for key, value in self._optimizer.state[master].items():
                tensors[f"{key}.{name}"] = value
        return tensors

    @torch.no_grad()
    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Continue from what ``state`` gave.

        Raises:
            KeyError: a tensor is missing.
        """
        for name, master in self._masters.items():
            master.copy_(tensors[f"master.{name}"])
            keys = ("step", "exp_avg", "exp_avg_sq")
            self._optimizer.state[master] = {
                key: tensors[f"{key}.{name}"].to(master.device).clone() for key in keys
            }
        self._round_into_model()

    def masters(self) -> Mapping[str, Tensor]:
        """The float32 copies by parameter name; to be read only."""
        return self._masters

    @torch.no_grad()
    def _round_into_model(self) -> None:
        for name, parameter in self._parameters.items():
            parameter.copy_(self._masters[name])
