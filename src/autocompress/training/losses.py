"""Losses against a teacher, computed a few tokens at a time from hidden states."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional


def forward_kl(
    student_hidden: Tensor,
    student_head: Tensor,
    teacher_hidden: Tensor,
    teacher_head: Tensor,
    *,
    chunk_tokens: int = 128,
) -> Tensor:
    """KL(teacher || student) of the next-token distributions, mean over tokens, in nats.

    Shapes: ``student_hidden [n, hs]``, ``student_head [V, hs]``, ``teacher_hidden [n, ht]``,
    ``teacher_head [V, ht]``; hidden states are those behind the final norm. Temperature 1. Logits
    are products in the tensors' own type; everything behind them is float32. Only ``chunk_tokens``
    rows of logits exist at any time, so gradients are computed on the way forward. They go to
    ``student_hidden`` and, when it requires them, ``student_head``; the teacher gets none.

    Returns a float32 scalar.

    Raises:
        ValueError: shapes do not fit together.
    """
    _check(student_hidden, student_head, teacher_hidden, teacher_head, chunk_tokens)
    if not torch.is_grad_enabled():
        return _value(student_hidden, student_head, teacher_hidden, teacher_head, chunk_tokens)
    loss: Tensor = _ForwardKl.apply(  # type: ignore[no-untyped-call]  # torch leaves apply untyped
        student_hidden, student_head, teacher_hidden.detach(), teacher_head.detach(), chunk_tokens
    )
    return loss


def cross_entropy_sum(
    hidden: Tensor, head: Tensor, targets: Tensor, *, chunk_tokens: int = 128
) -> Tensor:
    """Negative log-likelihood of ``targets [n]`` under ``hidden [n, h] @ head.T``, summed, in nats.

    No gradients; a float64 scalar.
    """
    with torch.no_grad():
        total = torch.zeros((), dtype=torch.float64, device=hidden.device)
        for rows in _chunks(hidden.shape[0], chunk_tokens):
            logits = (hidden[rows] @ head.T).float()
            total += functional.cross_entropy(logits, targets[rows], reduction="sum").double()
        return total


def _check(
    student_hidden: Tensor,
    student_head: Tensor,
    teacher_hidden: Tensor,
    teacher_head: Tensor,
    chunk_tokens: int,
) -> None:
    if chunk_tokens < 1:
        raise ValueError(f"chunk_tokens={chunk_tokens}: must be at least 1")
    if student_hidden.ndim != 2 or student_hidden.shape[0] == 0:
        raise ValueError(
            f"student_hidden has shape {tuple(student_hidden.shape)}; need [n >= 1, h]"
        )
    if student_hidden.shape[0] != teacher_hidden.shape[0]:
        raise ValueError(
            f"{student_hidden.shape[0]} student tokens, {teacher_hidden.shape[0]} teacher tokens"
        )
    if student_head.shape[0] != teacher_head.shape[0]:
        raise ValueError(
            f"vocabularies differ: {student_head.shape[0]} and {teacher_head.shape[0]}"
        )


def _chunks(tokens: int, chunk_tokens: int) -> Iterator[slice]:
    for start in range(0, tokens, chunk_tokens):
        yield slice(start, min(start + chunk_tokens, tokens))


def _chunk(
    student_hidden: Tensor, student_head: Tensor, teacher_hidden: Tensor, teacher_head: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Summed KL, log-probabilities of the student, probabilities of the teacher."""
    student = functional.log_softmax((student_hidden @ student_head.T).float(), dim=-1)
    teacher = functional.log_softmax((teacher_hidden @ teacher_head.T).float(), dim=-1)
    probabilities = teacher.exp()
    kl = torch.dot(probabilities.flatten(), teacher.sub_(student).flatten())
    return kl, student, probabilities


def _value(
    student_hidden: Tensor,
    student_head: Tensor,
    teacher_hidden: Tensor,
    teacher_head: Tensor,
    chunk_tokens: int,
) -> Tensor:
    tokens = student_hidden.shape[0]
    total = torch.zeros((), dtype=torch.float64, device=student_hidden.device)
    for rows in _chunks(tokens, chunk_tokens):
        kl, _, _ = _chunk(student_hidden[rows], student_head, teacher_hidden[rows], teacher_head)
        total += kl.double()
    return (total / tokens).float()


class _ForwardKl(torch.autograd.Function):
    """d KL / d logits = (softmax(student) - softmax(teacher)) / tokens."""

    @staticmethod
    def forward(  # noqa: PLR0917  # autograd passes by position
        ctx: FunctionCtx,
        student_hidden: Tensor,
        student_head: Tensor,
        teacher_hidden: Tensor,
        teacher_head: Tensor,
        chunk_tokens: int,
    ) -> Tensor:
        tokens = student_hidden.shape[0]
        needs_hidden, needs_head = ctx.needs_input_grad[:2]  # type: ignore[attr-defined]
        hidden_grad = torch.empty_like(student_hidden) if needs_hidden else None
        # Summed over chunks, hence float32 whatever the head's type.
        head_grad = torch.zeros_like(student_head, dtype=torch.float32) if needs_head else None
        total = torch.zeros((), dtype=torch.float64, device=student_hidden.device)
        for rows in _chunks(tokens, chunk_tokens):
            kl, student, probabilities = _chunk(
                student_hidden[rows], student_head, teacher_hidden[rows], teacher_head
            )
            total += kl.double()
            # Divided by the number of tokens after the products: small numbers would be lost in
            # float16.
            difference = student.exp_().sub_(probabilities).to(student_head.dtype)
            if hidden_grad is not None:
                hidden_grad[rows] = (
                    (difference @ student_head).float().div_(tokens).to(hidden_grad.dtype)
                )
            if head_grad is not None:
                head_grad += difference.T @ student_hidden[rows]
        if head_grad is not None:
            head_grad = head_grad.div_(tokens).to(student_head.dtype)
        ctx.save_for_backward(hidden_grad, head_grad)  # type: ignore[arg-type]  # None is allowed
        return (total / tokens).float()

    @staticmethod
    @once_differentiable
    def backward(
        ctx: FunctionCtx, upstream: Tensor
    ) -> tuple[Tensor | None, Tensor | None, None, None, None]:
        hidden_grad, head_grad = ctx.saved_tensors  # type: ignore[attr-defined]
        return (
            None if hidden_grad is None else hidden_grad * upstream.to(hidden_grad.dtype),
            None if head_grad is None else head_grad * upstream.to(head_grad.dtype),
            None,
            None,
            None,
        )
