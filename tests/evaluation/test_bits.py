"""Bits per byte of models whose answer is known."""

from __future__ import annotations

import pytest
import torch

from autocompress.evaluation.bits import bits_per_byte, text_spans
from autocompress.testing.byte_tokenizer import byte_tokenizer
from autocompress.testing.models import random_model, small_parent


def test_guessing_bytes_costs_eight_bits() -> None:
    model = random_model(small_parent(), seed=0)
    with torch.no_grad():
        model.model.embed_tokens.weight.zero_()  # tied: every logit is zero
    text = text_spans(byte_tokenizer(), ["Grüße, " * 30, "x", ""], window_tokens=50)
    assert text.bytes == len(("Grüße, " * 30).encode()) - 1
    assert bits_per_byte(model, text, batch_tokens=128, on_done=lambda _: None) == pytest.approx(8)


def test_every_token_but_the_first_is_scored_once() -> None:
    tokenizer = byte_tokenizer()
    document = "def f(x):\n    return x + 1\n" * 7
    text = text_spans(tokenizer, [document], window_tokens=16)
    assert [token for span in text.spans for token in span.continuation] == tokenizer.encode(
        document
    )[1:]
    assert all(
        span.context == (before.continuation[-1],)
        for before, span in zip(text.spans[:-1], text.spans[1:], strict=True)
    )
