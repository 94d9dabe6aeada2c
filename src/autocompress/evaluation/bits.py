"""Held-out text in bits per byte, which models with different tokenizers would share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from transformers import PreTrainedTokenizerBase

from autocompress.evaluation.likelihood import Span, score
from autocompress.models.heterogeneous import HeterogeneousForCausalLM
from autocompress.text.windows import begins_with_bos

#: A document is read in windows of so many tokens; no window sees the one before it, but for its
#: last token.
WINDOW_TOKENS = 512


@dataclass(frozen=True, kw_only=True, slots=True)
class TextSpans:
    """Documents as spans to be scored, and the UTF-8 bytes that the scored tokens stand for."""

    spans: tuple[Span, ...]
    bytes: int

    @property
    def tokens(self) -> int:
        """How many tokens are scored."""
        return sum(len(span.continuation) for span in self.spans)


def text_spans(
    tokenizer: PreTrainedTokenizerBase, documents: Sequence[str], *, window_tokens: int
) -> TextSpans:
    """Cut documents into windows.

    The first token of a document has nothing before it; unless the tokenizer puts a begin token
    there, it is not scored, and its bytes are not counted.
    """
    begin = [int(tokenizer.bos_token_id)] if begins_with_bos(tokenizer) else []
    spans: list[Span] = []
    counted = 0
    for document in documents:
        tokens = begin + [
            int(token) for token in tokenizer.encode(document, add_special_tokens=False)
        ]
        if len(tokens) < 2:
            continue
        counted += len(document.encode())
        if not begin:
            counted -= len(tokenizer.decode(tokens[:1]).encode())
        for start in range(0, len(tokens) - 1, window_tokens):
            spans.append(
                Span(
                    context=(tokens[start],),
                    continuation=tuple(tokens[start + 1 : start + 1 + window_tokens]),
                )
            )
    return TextSpans(spans=tuple(spans), bytes=counted)


def bits_per_byte(
    model: HeterogeneousForCausalLM,
    text: TextSpans,
    *,
    batch_tokens: int,
    on_done: Callable[[int], None],
) -> float:
    """Cross-entropy in bits over UTF-8 bytes: -sum of ln p / (ln 2 x bytes)."""
    scores = score(model, text.spans, batch_tokens=batch_tokens, on_done=on_done)
    nats = -sum(each.log_likelihood for each in scores)
    return nats / (math.log(2) * text.bytes)
