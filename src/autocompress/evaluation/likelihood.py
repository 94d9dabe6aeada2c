"""Log-likelihoods of the last tokens of sequences, without logits that nobody asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel

#: Positions whose logits are in memory at once; 256 of a 49,152-word vocabulary are 50 MB in FP32.
_HEAD_POSITIONS = 256


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """Token ids of a sequence; its last ``scored`` tokens are scored given all before them.

    ``1 <= scored < len(tokens)``: the first token is never scored.
    """

    tokens: tuple[int, ...]
    scored: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SpanScore:
    """Natural log-likelihood, and whether every scored token was the likeliest one."""

    log_likelihood: float
    greedy: bool


def score(
    model: PreTrainedModel,
    spans: Sequence[Span],
    *,
    batch_tokens: int,
    on_done: Callable[[int], None],
) -> list[SpanScore]:
    """Score every span; results in the order of ``spans``.

    Spans that differ in their last token alone share a forward pass. A batch holds sequences of
    similar length, padded on the right to at most ``batch_tokens`` tokens in all (one sequence at
    least). ``on_done`` is called, from one thread at a time, with the number of spans finished
    since its last call.
    """
    groups: dict[tuple[int, ...], list[int]] = {}
    for index, span in enumerate(spans):
        groups.setdefault(span.tokens[:-1], []).append(index)
    ordered = sorted(groups, key=lambda tokens: (-len(tokens), tokens))

    def run(batch: Sequence[tuple[int, ...]]) -> list[tuple[int, SpanScore]]:
        # Inference mode belongs to a thread.
        with torch.inference_mode():
            hidden = _hidden_states(model, batch)
            return [
                (index, _score_span(model, hidden[row, : len(tokens)], spans[index]))
                for row, tokens in enumerate(batch)
                for index in groups[tokens]
            ]

    results: dict[int, SpanScore] = {}
    with _workers(model.device) as pool:
        for finished in pool.map(run, _batches(ordered, batch_tokens)):
            results.update(finished)
            on_done(len(finished))
    return [results[index] for index in range(len(spans))]


@contextmanager
def _workers(device: torch.device) -> Iterator[ThreadPoolExecutor]:
    """Workers that take whole batches. On CPUs each computes with one thread: no barrier inside
    operators, which on a busy machine costs more than it gains, and results that do not depend on
    the number of cores.
    """
    threads = torch.get_num_threads()
    if device.type != "cpu":
        with ThreadPoolExecutor(1) as pool:
            yield pool
        return
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(threads) as pool:
            yield pool
    finally:
        torch.set_num_threads(threads)


def _batches(ordered: Sequence[tuple[int, ...]], batch_tokens: int) -> list[list[tuple[int, ...]]]:
    batches: list[list[tuple[int, ...]]] = []
    for tokens in ordered:
        # Descending lengths: the first sequence of a batch is its longest.
        if batches and (len(batches[-1]) + 1) * len(batches[-1][0]) <= batch_tokens:
            batches[-1].append(tokens)
        else:
            batches.append([tokens])
    return batches


def _hidden_states(model: PreTrainedModel, batch: Sequence[tuple[int, ...]]) -> torch.Tensor:
    """Final hidden states, [sequences, longest, hidden]; padding follows a sequence, so that under
    causal attention it changes nothing.
    """
    longest = max(len(tokens) for tokens in batch)
    ids = torch.tensor([[*tokens, *([0] * (longest - len(tokens)))] for tokens in batch])
    states = model.base_model(input_ids=ids.to(model.device), use_cache=False).last_hidden_state
    assert isinstance(states, torch.Tensor)
    return states


def _score_span(model: PreTrainedModel, hidden: torch.Tensor, span: Span) -> SpanScore:
    """``hidden``: [tokens - 1, hidden], the states after every token but the last."""
    head = model.get_output_embeddings()
    targets = torch.tensor(span.tokens[-span.scored :], device=hidden.device)
    states = hidden[-span.scored :]
    total, greedy = 0.0, True
    for start in range(0, span.scored, _HEAD_POSITIONS):
        wanted = targets[start : start + _HEAD_POSITIONS]
        logits = head(states[start : start + _HEAD_POSITIONS]).float()
        chosen = logits.gather(-1, wanted[:, None])[:, 0]
        total += float((chosen - logits.logsumexp(-1)).sum())
        greedy = greedy and bool((logits.argmax(-1) == wanted).all())
    return SpanScore(log_likelihood=total, greedy=greedy)
