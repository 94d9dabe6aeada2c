"""Runs multiple-choice tasks through lm-eval on a model that is in memory, item by item."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from typing import Literal

import datasets  # type: ignore[import-untyped]
import lm_eval.api.task
from lm_eval.api.instance import Instance
from lm_eval.api.task import ConfigurableTask
from lm_eval.evaluator import evaluate
from lm_eval.models.huggingface import HFLM
from tqdm import tqdm  # type: ignore[import-untyped]
from transformers import PreTrainedTokenizerBase

from autocompress.evaluation.likelihood import Span, score
from autocompress.evaluation.suites.items import Item, Task
from autocompress.models.heterogeneous import HeterogeneousForCausalLM

#: Tokens of one forward pass, padding included.
BATCH_TOKENS = 1024

# lm-eval has no switch for this progress bar, and a stage has its own.
lm_eval.api.task.tqdm = functools.partial(tqdm, disable=True)
logging.getLogger("lm_eval").setLevel(logging.ERROR)


class Harness(HFLM):  # type: ignore[misc]  # lm-eval has no types
    """lm-eval's model class with a quicker way to log-likelihoods.

    lm-eval's own loop runs every choice with its context again, and takes a log-softmax over the
    vocabulary at every position, padding included.
    """

    def __init__(
        self,
        model: HeterogeneousForCausalLM,
        tokenizer: PreTrainedTokenizerBase,
        on_done: Callable[[int], None],
    ) -> None:
        super().__init__(
            pretrained=model, tokenizer=tokenizer, backend="causal", device=str(model.device)
        )
        self._on_done = on_done

    def loglikelihood(
        self, requests: Sequence[Instance], disable_tqdm: bool = True
    ) -> list[tuple[float, bool]]:
        """See ``HFLM``; without its progress bar."""
        del disable_tqdm
        answers: list[tuple[float, bool]] = super().loglikelihood(requests, disable_tqdm=True)
        return answers

    def _loglikelihood_tokens(
        self,
        requests: Sequence[tuple[tuple[str, str], list[int], list[int]]],
        disable_tqdm: bool = False,
        override_bs: int | None = None,
    ) -> list[tuple[float, bool]]:
        """See ``HFLM``: (log-likelihood, whether greedy) of each continuation."""
        del disable_tqdm, override_bs
        spans = []
        for _, context, continuation in requests:
            # As lm-eval does, a context that is too long loses its beginning.
            kept = context[-max(1, self.max_length + 1 - len(continuation)) :]
            spans.append(Span(context=tuple(kept), continuation=tuple(continuation)))
        results = score(self.model, spans, batch_tokens=BATCH_TOKENS, on_done=self._on_done)
        return [(result.log_likelihood, result.greedy) for result in results]


def correct(harness: Harness, task: Task) -> tuple[bool, ...]:
    """Whether each item was answered rightly, in the task's order."""
    results = evaluate(
        harness, {"tasks": {task.name: _as_lm_eval(task)}}, bootstrap_iters=0, verbosity="ERROR"
    )
    samples = sorted(results["samples"][task.name], key=lambda sample: int(sample["doc_id"]))
    return tuple(float(sample[task.metric]) == 1.0 for sample in samples)


def _as_lm_eval(task: Task) -> ConfigurableTask:
    one_context = all(len({*item.contexts}) == 1 for item in task.items)
    # lm-eval calls a task with one continuation after several contexts "multiple inputs": there
    # the text is the index of the right context, and the contexts are the choices.
    text, choices, target = (
        ("context", "continuations", "gold")
        if one_context
        else ("gold", "contexts", "continuation")
    )
    rows = [_row(item) for item in task.items]
    return ConfigurableTask(
        config={
            "task": task.name,
            "custom_dataset": lambda **_: {"test": datasets.Dataset.from_list(rows)},
            "test_split": "test",
            "output_type": "multiple_choice",
            "doc_to_text": lambda row: row[text],
            "doc_to_choice": lambda row: row[choices],
            "doc_to_target": lambda row: row[target],
            "target_delimiter": task.delimiter,
            "num_fewshot": 0,
            "metric_list": [
                {"metric": task.metric, "aggregation": "mean", "higher_is_better": True}
            ],
        }
    )


_Key = Literal["context", "contexts", "continuation", "continuations", "gold"]


def _row(item: Item) -> dict[_Key, str | list[str] | int]:
    return {
        "context": item.contexts[0],
        "contexts": list(item.contexts),
        "continuation": item.continuations[0],
        "continuations": list(item.continuations),
        "gold": item.gold,
    }
