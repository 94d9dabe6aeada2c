"""Shared rows score what separate forward passes score."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from autocompress.domain.architecture import Attention
from autocompress.evaluation.likelihood import Span, SpanScore, score
from autocompress.models.heterogeneous import HeterogeneousForCausalLM
from autocompress.testing.models import random_model, random_part, small_parent

torch.set_num_threads(2)


def one_by_one(model: HeterogeneousForCausalLM, span: Span) -> SpanScore:
    ids = torch.tensor([span.context + span.continuation])
    with torch.no_grad():
        logits = model(input_ids=ids).logits[0, len(span.context) - 1 : -1]
    targets = torch.tensor(span.continuation)
    chosen = logits.log_softmax(-1).gather(-1, targets[:, None])
    return SpanScore(
        log_likelihood=float(chosen.sum()), greedy=bool((logits.argmax(-1) == targets).all())
    )


tokens = st.lists(st.integers(0, 255), min_size=1, max_size=12).map(tuple)
questions = st.lists(
    st.tuples(tokens, st.lists(tokens, min_size=1, max_size=4)), min_size=1, max_size=4
)


@settings(max_examples=25, deadline=None)
@given(asked=questions, seed=st.integers(0, 1000), batch=st.integers(1, 100))
def test_sharing_a_context_changes_nothing(
    asked: list[tuple[tuple[int, ...], list[tuple[int, ...]]]], seed: int, batch: int
) -> None:
    spans = [Span(context=c, continuation=each) for c, choices in asked for each in choices]
    model = random_model(random_part(small_parent(), random.Random(seed)), seed=seed)
    done: list[int] = []
    results = score(model, spans, batch_tokens=batch, on_done=done.append)
    assert sum(done) == len(spans)
    for span, result in zip(spans, results, strict=True):
        wanted = one_by_one(model, span)
        assert result.log_likelihood == pytest.approx(wanted.log_likelihood, abs=1e-3, rel=1e-4)
        assert result.greedy == wanted.greedy


def test_sliding_windows_are_kept() -> None:
    parent = small_parent()
    blocks = tuple(
        replace(block, window=4) if isinstance(block, Attention) else block
        for block in parent.blocks
    )
    model = random_model(replace(parent, blocks=blocks), seed=0)
    context = tuple(range(20))
    spans = [
        Span(context=context, continuation=continuation)
        for continuation in ((1, 2, 3, 4, 5, 6), (7, 8), (9,))
    ]
    for span, result in zip(
        spans, score(model, spans, batch_tokens=64, on_done=lambda _: None), strict=True
    ):
        wanted = one_by_one(model, span).log_likelihood
        assert result.log_likelihood == pytest.approx(wanted, rel=1e-4)


def test_the_callers_threads_are_restored() -> None:
    model = random_model(small_parent(), seed=0)
    before = torch.get_num_threads()
    score(model, [Span(context=(1,), continuation=(2,))], batch_tokens=8, on_done=lambda _: None)
    assert torch.get_num_threads() == before
