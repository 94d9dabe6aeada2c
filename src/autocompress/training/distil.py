"""Distillation of a student from a frozen teacher: forward KL on logits, resumed exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from autocompress.contract.errors import DataError, StoppedError
from autocompress.contract.progress import Progress
from autocompress.domain.records import RecoveryPoint
from autocompress.models.heterogeneous import HeterogeneousForCausalLM
from autocompress.training.checkpoint import TrainingState, newest_checkpoint, save_checkpoint
from autocompress.training.losses import forward_kl
from autocompress.training.master import MasterAdamW, NotFiniteError
from autocompress.training.schedule import warmup_cosine
from autocompress.training.stopping import StopRequest


@dataclass(frozen=True, kw_only=True)
class DistillationPlan:
    """What is trained on what: ``rows [n, s]`` and ``validation_rows [m, s]`` are token ids.

    Step ``i`` reads rows ``i * rows_per_step`` and following, so the position in the data is the
    step itself. The embedding is trained only when the hidden size was cut: otherwise it still
    fits, and its gradient (vocabulary x hidden size) is the dearest of all.
    """

    rows: Tensor
    validation_rows: Tensor
    rows_per_step: int
    learning_rate: float
    train_embeddings: bool
    checkpoint_every_steps: int
    validations: int = 6

    @property
    def steps(self) -> int:
        """Optimizer steps in all."""
        return self.rows.shape[0] // self.rows_per_step

    def is_validated(self, step: int) -> bool:
        """Whether the validation loss is read after ``step`` steps: evenly, first and last."""
        every = max(1, self.steps // self.validations)
        return step == self.steps or (step % every == 0 and step + every <= self.steps)


def distil(
    student: HeterogeneousForCausalLM,
    teacher: HeterogeneousForCausalLM,
    plan: DistillationPlan,
    *,
    checkpoints: Path,
    progress: Progress,
    stop: StopRequest,
) -> tuple[RecoveryPoint, ...]:
    """Train ``student`` in place and return its curve.

    Continues from the newest checkpoint; with the same plan, an interrupted run ends with the same
    weights, bit for bit, as one that was not.

    Raises:
        StoppedError: asked to stop; a checkpoint was written.
        DataError: the loss is not finite.
    """
    ends = (
        () if plan.train_embeddings else (student.model.embed_tokens.weight, student.lm_head.weight)
    )
    trained = {
        name: parameter
        for name, parameter in student.named_parameters()
        if not any(parameter is end for end in ends)
    }
    student.requires_grad_(False)
    for parameter in trained.values():
        parameter.requires_grad_(True)
    teacher.requires_grad_(False)
    optimizer = MasterAdamW(trained)
    validation = _validation(teacher, plan)
    points: list[RecoveryPoint] = []
    first = 0
    if (found := newest_checkpoint(checkpoints)) is not None:
        state, tensors = found
        optimizer.load_state(tensors)
        first, points = state.step, list(state.points)
        progress.say(f"going on from the checkpoint after step {first} of {plan.steps}")
    else:
        loss = validation(student)
        points.append(_point(plan, 0, training=loss, validation=loss))
    progress.task("distilling", plan.steps)
    progress.advance(first)
    for step in range(first, plan.steps):
        training_loss = _train_step(student, teacher, optimizer, plan, step)
        done = step + 1
        held_out = validation(student) if plan.is_validated(done) else None
        points.append(_point(plan, done, training=training_loss, validation=held_out))
        progress.advance(1, note=f"loss {training_loss:.3f}")
        saves = done % plan.checkpoint_every_steps == 0 or stop.requested
        if saves and done < plan.steps:
            state = TrainingState(step=done, points=tuple(points))
            save_checkpoint(checkpoints, state, optimizer.state())
        if stop.requested and done < plan.steps:
            raise StoppedError(
                f"stopped after step {done} of {plan.steps}, with a checkpoint; run again to go on"
            )
    return tuple(points)


def _train_step(
    student: HeterogeneousForCausalLM,
    teacher: HeterogeneousForCausalLM,
    optimizer: MasterAdamW,
    plan: DistillationPlan,
    step: int,
) -> float:
    begin = step * plan.rows_per_step
    rows = plan.rows[begin : begin + plan.rows_per_step].to(student.device)
    with torch.no_grad():
        target = hidden_states(teacher, rows)
    student.train()
    loss = forward_kl(
        hidden_states(student, rows), student.lm_head.weight, target, teacher.lm_head.weight
    )
    loss.backward()
    value = float(loss.detach())
    try:
        optimizer.step(plan.learning_rate * warmup_cosine(step, plan.steps))
    except NotFiniteError as error:
        raise DataError(
            f"recovery: {error} at step {step + 1} (loss {value}); give a lower "
            "recovery.learningRate"
        ) from error
    return value


def hidden_states(model: HeterogeneousForCausalLM, rows: Tensor) -> Tensor:
    """States behind the final norm, ``[rows * s, hidden size]``."""
    states: Tensor = model.model(input_ids=rows, use_cache=False).last_hidden_state
    return states.flatten(0, 1)


def _validation(
    teacher: HeterogeneousForCausalLM, plan: DistillationPlan
) -> Callable[[HeterogeneousForCausalLM], float]:
    batches = plan.validation_rows.split(max(1, plan.rows_per_step))
    with torch.no_grad():
        targets = [hidden_states(teacher, batch.to(teacher.device)) for batch in batches]

    @torch.no_grad()
    def read(student: HeterogeneousForCausalLM) -> float:
        student.eval()
        total = 0.0
        for batch, target in zip(batches, targets, strict=True):
            states = hidden_states(student, batch.to(student.device))
            loss = forward_kl(states, student.lm_head.weight, target, teacher.lm_head.weight)
            total += float(loss) * target.shape[0]
        return total / sum(target.shape[0] for target in targets)

    return read


def _point(
    plan: DistillationPlan, step: int, *, training: float, validation: float | None
) -> RecoveryPoint:
    share = warmup_cosine(step - 1, plan.steps) if step else 0.0
    return RecoveryPoint(
        step=step,
        tokens=step * plan.rows_per_step * plan.rows.shape[1],
        training_loss=training,
        validation_loss=validation,
        learning_rate=plan.learning_rate * share,
    )
