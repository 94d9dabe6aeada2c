"""The chunked distillation loss against the plain formula."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from autocompress.training.losses import cross_entropy_sum, forward_kl

torch.set_num_threads(1)


def tensors(tokens=7, vocabulary=31, student=8, teacher=12, dtype=torch.float64):
    generator = torch.Generator().manual_seed(tokens * 1000 + vocabulary)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    return (
        draw(tokens, student).requires_grad_(),
        draw(vocabulary, student).requires_grad_(),
        draw(tokens, teacher),
        draw(vocabulary, teacher),
    )


def plain(student_hidden, student_head, teacher_hidden, teacher_head):
    return functional.kl_div(
        functional.log_softmax(student_hidden @ student_head.T, dim=-1),
        functional.log_softmax(teacher_hidden @ teacher_head.T, dim=-1),
        reduction="batchmean",
        log_target=True,
    )


@given(
    tokens=st.integers(1, 20),
    vocabulary=st.integers(2, 40),
    chunk=st.integers(1, 25),
    scale=st.floats(0.1, 3),
)
@settings(max_examples=40, deadline=None)
def test_value_and_gradients_are_those_of_the_formula(tokens, vocabulary, chunk, scale):
    inputs = tensors(tokens, vocabulary, dtype=torch.float32)
    loss = forward_kl(*inputs, chunk_tokens=chunk)
    (loss * scale).backward()
    found = [inputs[0].grad, inputs[1].grad]
    exact = [t.detach().double().requires_grad_(t.requires_grad) for t in inputs]
    expected = plain(*exact)
    (expected * scale).backward()
    torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found[0].double(), exact[0].grad, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(found[1].double(), exact[1].grad, rtol=1e-4, atol=1e-6)


def test_a_student_equal_to_its_teacher_has_no_loss_and_no_gradient():
    hidden, head, _, _ = tensors(dtype=torch.float32)
    loss = forward_kl(hidden, head, hidden.detach(), head.detach())
    loss.backward()
    assert loss.item() == 0
    assert hidden.grad.abs().max() < 1e-8


def test_a_frozen_head_gets_no_gradient_and_the_teacher_never():
    hidden, head, teacher_hidden, teacher_head = tensors(dtype=torch.float32)
    teacher_head.requires_grad_()
    forward_kl(hidden, head.detach(), teacher_hidden, teacher_head).backward()
    assert hidden.grad is not None
    assert head.grad is None
    assert teacher_head.grad is None


def test_without_gradients_the_value_is_the_same():
    inputs = tensors(dtype=torch.float32)
    with torch.no_grad():
        value = forward_kl(*inputs, chunk_tokens=3)
    assert value == forward_kl(*inputs, chunk_tokens=3)
    assert not value.requires_grad


def test_half_precision_is_near_the_exact_value():
    inputs = tensors(64, 101, dtype=torch.bfloat16)
    loss = forward_kl(*inputs, chunk_tokens=16)
    loss.backward()
    exact = [t.detach().double().requires_grad_(t.requires_grad) for t in inputs]
    expected = plain(*exact)
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=0.02)
    for found, reference in zip(inputs[:2], exact[:2], strict=True):
        assert found.grad.dtype == torch.bfloat16
        error = (found.grad.double() - reference.grad).norm() / reference.grad.norm()
        assert error < 0.03


def test_no_tensor_holds_the_logits_of_all_tokens():
    class Largest(TorchDispatchMode):
        elements = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            if isinstance(result, torch.Tensor):
                self.elements = max(self.elements, result.numel())
            return result

    inputs = tensors(512, 300, student=4, teacher=4, dtype=torch.float32)
    with Largest() as seen:
        forward_kl(*inputs, chunk_tokens=16).backward()
    assert seen.elements <= max(16 * 300, 512 * 4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h, w, th, tw: (h, w, th[:-1], tw), "7 student tokens, 6 teacher"),
        (lambda h, w, th, tw: (h, w, th, tw[:-1]), "vocabularies differ"),
        (lambda h, w, th, tw: (h[:0], w, th[:0], tw), "n >= 1"),
    ],
)
def test_shapes_that_do_not_fit_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        forward_kl(*change(*tensors(dtype=torch.float32)))


def test_cross_entropy_is_the_sum_over_tokens():
    hidden, head, _, _ = tensors(dtype=torch.float32)
    targets = torch.arange(7)
    expected = functional.cross_entropy(hidden @ head.T, targets, reduction="sum")
    found = cross_entropy_sum(hidden, head, targets, chunk_tokens=2)
    assert found.item() == pytest.approx(expected.item(), rel=1e-5)
