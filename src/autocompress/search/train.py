"""Training the shared weights and the router together, under distillation and penalties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from autocompress.contract.errors import DataError
from autocompress.contract.progress import Progress
from autocompress.domain.records import SearchStep
from autocompress.models.heterogeneous import HeterogeneousForCausalLM
from autocompress.search.grid import CostGrid
from autocompress.search.penalties import two_sided
from autocompress.search.router import Annealing, Router
from autocompress.supernet.forward import Supernet
from autocompress.training.distil import hidden_states
from autocompress.training.losses import forward_kl
from autocompress.training.master import MasterAdamW, NotFiniteError

#: Weights of the penalty, in nats per unit of utilisation. At the optimum the loss grows by a few
#: nats per unit of budget taken away, and choices harden as the temperature falls: a penalty of 6
#: settled 5 % outside the limit on SmolLM2, one of 20 inside.
OVER_WEIGHT = 20.0
UNDER_WEIGHT = 20.0
#: Distributions are compared on every second position, in turn: neighbours say much the same, and
#: over a large vocabulary the comparison is dear.
POSITION_STRIDE = 2
#: The share of steps in which both learning rates rise from zero.
WARMUP_SHARE = 0.1


@dataclass(frozen=True, kw_only=True)
class SearchPlan:
    """What is trained on what: ``rows [n, s]`` token ids, ``rows_per_step`` of them a step.

    ``ceiling``: the share of every limit to aim at, in the grid's order; ``floor``: the least share
    of the binding one, relative to its ceiling.
    """

    rows: Tensor
    rows_per_step: int
    learning_rate: float
    router_learning_rate: float
    ceiling: Sequence[float]
    floor: float
    seed: int
    annealing: Annealing = Annealing()  # noqa: RUF009  # frozen

    @property
    def steps(self) -> int:
        """Optimizer steps in all."""
        return self.rows.shape[0] // self.rows_per_step


def train_router(
    supernet: Supernet,
    teacher: HeterogeneousForCausalLM,
    grid: CostGrid,
    plan: SearchPlan,
    progress: Progress,
) -> tuple[Router, tuple[SearchStep, ...]]:
    """Train both and return the router; the weights have served when it returns.

    Embedding and head stay as they are: they are shared by all choices but the hidden size.

    Raises:
        DataError: the loss is not finite.
    """
    generator = torch.Generator().manual_seed(plan.seed)
    student = supernet.model
    student.requires_grad_(False)
    frozen = (student.model.embed_tokens.weight, student.lm_head.weight)
    trained = {
        name: parameter
        for name, parameter in student.named_parameters()
        if not any(parameter is end for end in frozen)
    }
    for parameter in trained.values():
        parameter.requires_grad_(True)
    weights = MasterAdamW(trained)
    router = Router(supernet.space)
    router_optimizer = torch.optim.Adam(router.parameters(), betas=(0.9, 0.99))
    ceiling = torch.tensor(tuple(plan.ceiling), dtype=torch.float32)
    trace = []
    progress.task("searching", plan.steps)
    for step in range(plan.steps):
        done = step / max(1, plan.steps - 1)
        temperature = plan.annealing.temperature(done)
        rate = min(1.0, (step + 1) / max(1, round(plan.steps * WARMUP_SHARE)))
        choices = router.sample(temperature, plan.annealing.scale(done), generator)
        begin = step * plan.rows_per_step
        rows = plan.rows[begin : begin + plan.rows_per_step].to(student.device)
        compared = slice(step % POSITION_STRIDE, None, POSITION_STRIDE)
        with torch.no_grad():
            target = hidden_states(teacher, rows)[compared]
        loss = forward_kl(
            supernet.hidden_states(rows, choices)[compared],
            student.lm_head.weight,
            target,
            teacher.lm_head.weight,
        )
        used = grid.expected(choices, supernet.space)
        penalty = two_sided(used / ceiling, floor=plan.floor, over=OVER_WEIGHT, under=UNDER_WEIGHT)
        # The router and its costs stay on the CPU, wherever the weights are.
        (loss.cpu() + penalty).backward()
        try:
            weights.step(plan.learning_rate * rate)
        except NotFiniteError as error:
            raise DataError(
                f"search: {error} at step {step + 1}; give a lower search.learningRate"
            ) from error
        for group in router_optimizer.param_groups:
            group["lr"] = plan.router_learning_rate * rate
        router_optimizer.step()
        router_optimizer.zero_grad()
        trace.append(
            SearchStep(
                step=step + 1,
                distillation_loss=float(loss.detach()),
                penalty=float(penalty.detach()),
                temperature=temperature,
                utilization=dict(zip(grid.names, used.tolist(), strict=True)),
            )
        )
        progress.advance(1, note=f"loss {trace[-1].distillation_loss:.3f}")
    return router, tuple(trace)
