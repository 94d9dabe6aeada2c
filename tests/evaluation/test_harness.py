"""Our quicker scoring gives lm-eval's own answers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autocompress.evaluation.suites.benchmarks import data_folder, tasks
from autocompress.evaluation.suites.items import Item, Task, choose
from autocompress.testing.byte_tokenizer import byte_tokenizer
from autocompress.testing.models import random_model, small_parent
from autocompress.text.installed import boolq_scored

pytestmark = pytest.mark.slow  # lm-eval alone takes ten seconds to import


@pytest.mark.parametrize("name", ["piqa", "openbookqa", "winogrande", "boolq", "humaneval_choice"])
def test_as_lm_eval_alone(name: str) -> None:
    from lm_eval.models.huggingface import HFLM

    from autocompress.evaluation.harness import Harness, correct

    model = random_model(small_parent(), seed=1)
    tokenizer = byte_tokenizer()
    task = tasks(data_folder(), boolq_scored)[name]()
    task = replace(task, items=choose(task.items, 6))
    done: list[int] = []
    ours = correct(Harness(model, tokenizer, done.append), task)
    theirs = correct(
        HFLM(pretrained=model, tokenizer=tokenizer, backend="causal", device="cpu", batch_size=2),
        task,
    )
    assert ours == theirs
    assert sum(done) == sum(len(item.continuations) for item in task.items)


def test_a_model_that_repeats_is_right_about_repetition() -> None:
    # The embedding is the head and no block adds anything: the likeliest token is the last one.
    import torch

    from autocompress.evaluation.harness import Harness, correct

    model = random_model(small_parent(), seed=2)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "o_proj" in name or "down_proj" in name:
                parameter.zero_()
    items = tuple(
        Item(key=str(gold), contexts=("aaa",) * 2, continuations=choices, gold=gold)
        for gold, choices in enumerate((("aaaa", "bcde"), ("bcde", "aaaa")))
    )
    task = Task(name="repeat", metric="acc", items=items, delimiter="")
    assert correct(Harness(model, byte_tokenizer(), lambda _: None), task) == (True, True)
