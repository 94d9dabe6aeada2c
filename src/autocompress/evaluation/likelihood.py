"""Log-likelihoods of continuations, without computing what nobody asks for.

Continuations of one context share its computation: context and continuations lie behind one
another in one row, and a mask hides the continuations from each other. Only scored positions reach
the output head.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from autocompress.domain.architecture import Attention
from autocompress.models.heterogeneous import HeterogeneousForCausalLM

#: Positions whose logits are in memory at once; 256 of a 49,152-word vocabulary are 50 MB in FP32.
_HEAD_POSITIONS = 256


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """Token ids to be scored, given the token ids before them; neither is empty."""

    context: tuple[int, ...]
    continuation: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class SpanScore:
    """Natural log-likelihood, and whether every scored token was the likeliest one."""

    log_likelihood: float
    greedy: bool


@dataclass(frozen=True, kw_only=True)
class _Row:
    """One context and the different continuations after it, each without its last token.

    ``spans``: indices of the spans it answers, with the place of their states in the row.
    """

    context: tuple[int, ...]
    branches: tuple[tuple[int, ...], ...]
    spans: Mapping[int, int]

    @property
    def length(self) -> int:
        return len(self.context) + sum(map(len, self.branches))

    def starts(self) -> list[int]:
        """Where each branch begins in the row."""
        starts, at = [], len(self.context)
        for branch in self.branches:
            starts.append(at)
            at += len(branch)
        return starts


def score(
    model: HeterogeneousForCausalLM,
    spans: Sequence[Span],
    *,
    batch_tokens: int,
    on_done: Callable[[int], None],
) -> list[SpanScore]:
    """Score every span; results in the order of ``spans``.

    A batch holds rows of similar length, padded on the right to at most ``batch_tokens`` tokens in
    all (one row at least). ``on_done`` is called, from the calling thread, with the number of
    spans finished since its last call.
    """
    windowed = any(
        isinstance(block, Attention) and block.window is not None
        for block in model.architecture.blocks
    )
    # A sliding window counts places in the row, which sharing would shift.
    rows = _separate_rows(spans) if windowed else _shared_rows(spans)

    def run(batch: Sequence[_Row]) -> list[tuple[int, SpanScore]]:
        # Inference mode belongs to a thread.
        with torch.inference_mode():
            hidden = _hidden_states(model, batch, causal_only=windowed)
            return [
                (index, _score_span(model, hidden[place], row, branch, spans[index]))
                for place, row in enumerate(batch)
                for index, branch in row.spans.items()
            ]

    results: dict[int, SpanScore] = {}
    with _workers(model.device) as pool:
        for finished in pool.map(run, _batches(rows, batch_tokens)):
            results.update(finished)
            on_done(len(finished))
    return [results[index] for index in range(len(spans))]


def _shared_rows(spans: Sequence[Span]) -> list[_Row]:
    by_context: dict[tuple[int, ...], list[int]] = {}
    for index, span in enumerate(spans):
        by_context.setdefault(span.context, []).append(index)
    rows = []
    for context, indices in by_context.items():
        branches: dict[tuple[int, ...], int] = {}
        places = {
            index: branches.setdefault(spans[index].continuation[:-1], len(branches))
            for index in indices
        }
        rows.append(_Row(context=context, branches=tuple(branches), spans=places))
    return rows


def _separate_rows(spans: Sequence[Span]) -> list[_Row]:
    return [
        _Row(context=span.context, branches=(span.continuation[:-1],), spans={index: 0})
        for index, span in enumerate(spans)
    ]


@contextmanager
def _workers(device: torch.device) -> Iterator[ThreadPoolExecutor]:
    """Workers that take whole batches.

    On CPUs each computes with one thread: no barrier inside operators, which on a busy machine
    costs more than it gains, and results that do not depend on the number of cores.
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


def _batches(rows: Sequence[_Row], batch_tokens: int) -> list[list[_Row]]:
    batches: list[list[_Row]] = []
    for row in sorted(rows, key=lambda row: (-row.length, row.context, row.branches)):
        # Descending lengths: the first row of a batch is its longest.
        if batches and (len(batches[-1]) + 1) * batches[-1][0].length <= batch_tokens:
            batches[-1].append(row)
        else:
            batches.append([row])
    return batches


def _hidden_states(
    model: HeterogeneousForCausalLM, batch: Sequence[_Row], *, causal_only: bool
) -> torch.Tensor:
    """Final hidden states, [rows, longest row, hidden size]; those of padding mean nothing."""
    longest = max(row.length for row in batch)
    ids = torch.zeros(len(batch), longest, dtype=torch.long)
    positions = torch.zeros(len(batch), longest, dtype=torch.long)
    # 0 is the context, which everything behind it sees; padding counts as a branch of its own.
    branch_of = torch.full((len(batch), longest), -1)
    for place, row in enumerate(batch):
        shared = len(row.context)
        ids[place, :shared] = torch.tensor(row.context)
        positions[place, :shared] = torch.arange(shared)
        branch_of[place, :shared] = 0
        for number, (start, branch) in enumerate(zip(row.starts(), row.branches, strict=True), 1):
            inside = slice(start, start + len(branch))
            ids[place, inside] = torch.tensor(branch, dtype=torch.long)
            positions[place, inside] = torch.arange(shared, shared + len(branch))
            branch_of[place, inside] = number
    mask = None
    if not causal_only:
        same = branch_of[:, :, None] == branch_of[:, None, :]
        seen = (same | (branch_of == 0)[:, None, :]).tril()
        # Additive, which every attention implementation takes, with the heads' dimension.
        mask = torch.zeros(seen.shape, dtype=model.dtype).masked_fill(
            ~seen, torch.finfo(model.dtype).min
        )[:, None]
    states = model.model(
        input_ids=ids.to(model.device),
        position_ids=positions.to(model.device),
        attention_mask=None if mask is None else mask.to(model.device),
        use_cache=False,
    ).last_hidden_state
    assert isinstance(states, torch.Tensor)
    return states


def _score_span(
    model: HeterogeneousForCausalLM, hidden: torch.Tensor, row: _Row, branch: int, span: Span
) -> SpanScore:
    """``hidden``: [row length or more, hidden size]."""
    start = row.starts()[branch]
    last_of_context = hidden[len(row.context) - 1 : len(row.context)]
    states = torch.cat((last_of_context, hidden[start : start + len(row.branches[branch])]))
    targets = torch.tensor(span.continuation, device=hidden.device)
    total, greedy = 0.0, True
    for low in range(0, len(span.continuation), _HEAD_POSITIONS):
        wanted = targets[low : low + _HEAD_POSITIONS]
        logits = model.lm_head(states[low : low + _HEAD_POSITIONS]).float()
        chosen = logits.gather(-1, wanted[:, None])[:, 0]
        total += float((chosen - logits.logsumexp(-1)).sum())
        greedy = greedy and bool((logits.argmax(-1) == wanted).all())
    return SpanScore(log_likelihood=total, greedy=greedy)
