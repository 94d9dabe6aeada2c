"""Asks a model everything that a suite holds: benchmarks through lm-eval, and held-out text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import torch
from transformers import AutoTokenizer

from autocompress.contract.digest import digest
from autocompress.contract.progress import Progress
from autocompress.domain.deployment import AcceleratorKind, Precision, Target
from autocompress.evaluation.bits import WINDOW_TOKENS, bits_per_byte, text_spans
from autocompress.evaluation.harness import BATCH_TOKENS, Harness, correct
from autocompress.evaluation.results import ModelQuality, TaskResult, TextResult
from autocompress.evaluation.suites import Suite
from autocompress.evaluation.suites.benchmarks import tasks
from autocompress.evaluation.suites.items import Task, choose
from autocompress.models import checkpoint
from autocompress.text.corpus import Corpus, held_out
from autocompress.training.runtime import compute_dtype

#: Bumped by hand when scores mean something else.
VERSION = 2

#: What a window of text weighs in the progress bar, where a choice of a question weighs 1.
_WINDOW_WEIGHT = 15


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldOutText:
    """Documents of one kind that no model was trained on."""

    name: str
    documents: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Questions:
    """Everything that is asked, the same for parent and compressed model."""

    suite: str
    tasks: tuple[Task, ...]
    texts: tuple[HeldOutText, ...]

    @property
    def digest(self) -> str:
        """What identifies questions and scoring."""
        return digest({"version": VERSION, "tasks": self.tasks, "texts": self.texts})


def questions(
    suite: Suite, *, benchmark_folder: Path, corpus: Corpus, is_scored: Callable[[str], bool]
) -> Questions:
    """Read the questions of a suite; ``is_scored``: whether BoolQ may be scored on a passage.

    Raises:
        DataError: benchmark data or held-out text is missing.
    """
    known = tasks(benchmark_folder, is_scored)
    chosen = []
    for name, limit in suite.limits.items():
        task = known[name]()
        chosen.append(replace(task, items=choose(task.items, limit)))
    return Questions(
        suite=suite.name,
        tasks=tuple(chosen),
        texts=tuple(
            HeldOutText(
                name=kind.value,
                documents=tuple(
                    document.text
                    for document in held_out(corpus, kind, limit_bytes=suite.text_bytes)
                ),
            )
            for kind in corpus.kinds
        ),
    )


def measure(
    model_dir: Path, asked: Questions, *, target: Target, name: str, progress: Progress
) -> ModelQuality:
    """Load a model and ask it everything; ``name`` stands in the progress.

    Raises:
        DataError: the model folder cannot be used.
    """
    device = device_of(target)
    model = checkpoint.load(model_dir, arithmetic(target.precision, device)).to(device)
    tokenizer = AutoTokenizer.from_pretrained(
        model_dir, local_files_only=True, trust_remote_code=False
    )
    texts = [
        (text.name, text_spans(tokenizer, text.documents, window_tokens=WINDOW_TOKENS))
        for text in asked.texts
    ]
    choices = sum(len(item.continuations) for task in asked.tasks for item in task.items)
    windows = sum(len(spans.spans) for _, spans in texts)
    progress.task(f"quality of the {name}", choices + _WINDOW_WEIGHT * windows)
    harness = Harness(model, tokenizer, progress.advance)
    results = tuple(
        TaskResult(
            name=task.name,
            metric=task.metric,
            chance=fmean(item.chance for item in task.items),
            correct=correct(harness, task),
        )
        for task in asked.tasks
    )
    return ModelQuality(
        suite=asked.suite,
        tasks=results,
        texts=tuple(
            TextResult(
                name=name,
                bytes=spans.bytes,
                tokens=spans.tokens,
                bits_per_byte=bits_per_byte(
                    model,
                    spans,
                    batch_tokens=BATCH_TOKENS,
                    on_done=lambda count: progress.advance(_WINDOW_WEIGHT * count),
                ),
            )
            for name, spans in texts
        ),
    )


def arithmetic(precision: Precision, device: torch.device) -> torch.dtype:
    """The element type to compute in: the deployment's, or FP32 where the processor has no
    instructions for it (BF16 on many CPUs, FP16 on all), which would be many times slower.

    The weights stay those of the checkpoint, rounded to the deployment's precision when it was
    written.
    """
    if device.type == "cpu" and precision is not Precision.BF16:
        return torch.float32
    if device.type == "cpu":
        return compute_dtype(device)
    dtype = getattr(torch, precision.torch_name)
    assert isinstance(dtype, torch.dtype)
    return dtype


def device_of(target: Target) -> torch.device:
    """Where quality is measured: the target's kind of device, if this machine has one."""
    on_gpu = target.accelerator.kind is AcceleratorKind.GPU and torch.cuda.is_available()
    return torch.device("cuda" if on_gpu else "cpu")
