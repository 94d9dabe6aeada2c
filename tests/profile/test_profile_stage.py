"""The stage when the table of its conditions is in the store already: no engine is started."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from transformers import LlamaConfig, LlamaForCausalLM

from autocompress.contract import documents
from autocompress.contract.errors import DataError, InfeasibleError, SpecError
from autocompress.contract.stage import Outcome, Stage
from autocompress.cost.exchange import bundle, publish_shared, write_shared
from autocompress.cost.model import load_model
from autocompress.cost.table import table_key
from autocompress.domain.budget import Budget, Limit, Metric
from autocompress.domain.deployment import Precision
from autocompress.domain.job import Job, ModelSource
from autocompress.engines.vllm.conditions import read_conditions
from autocompress.models.checkpoint import read_architecture
from autocompress.profile.stage import run
from autocompress.stages.context import StageContext
from autocompress.store.directory import DirectoryStore
from autocompress.testing.byte_tokenizer import save_byte_tokenizer
from autocompress.testing.costs import made_up_model

CONFIG = {
    "vocab_size": 256,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
}
REVISION = "sha256:" + "1" * 64


class Recorder:
    """Keeps what a stage says."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def task(self, name: str, total: float) -> None:
        del total
        raise AssertionError(f"{name}: nothing was to be measured")

    def advance(self, amount: float = 1, note: str = "") -> None:
        del amount, note

    def say(self, message: str) -> None:
        self.said.append(message)


@pytest.fixture
def contexts(job: Job, tmp_path: Path) -> Callable[[Budget], StageContext]:
    """Contexts for one store, which holds a made-up table of this machine's conditions."""
    parent = tmp_path / "parent"
    parent.mkdir()
    LlamaForCausalLM(LlamaConfig(**CONFIG)).save_pretrained(parent)
    save_byte_tokenizer(parent)
    source = ModelSource(uri=f"file://{parent}")
    job = replace(job, source=source, target=replace(job.target, precision=Precision.FP32))
    store = DirectoryStore(tmp_path / "store")
    space = _space(job, parent)
    model = made_up_model(space, job.workload)
    conditions = read_conditions(job.target, job.workload)
    shared = tmp_path / "shared"
    write_shared(
        shared,
        table=replace(model.table, conditions=conditions, source_revision=REVISION),
        parent_costs=model.parent_costs,
        held_out=model.held_out,
    )
    publish_shared(store, shared, table_key(conditions, space, job.workload, REVISION))

    def make(budget: Budget) -> StageContext:
        output = tmp_path / f"output-{len(list(tmp_path.iterdir()))}"
        output.mkdir()
        return StageContext(
            job=replace(job, budget=budget),
            store=store,
            inputs={},
            manifests={},
            input_digest="sha256:0",
            source_revision=REVISION,
            output_dir=output,
            checkpoint_dir=tmp_path,
            cache_dir=tmp_path,
            progress=Recorder(),
        )

    return make


def _space(job: Job, parent: Path):
    from autocompress.cost.space import default_space
    from autocompress.engines.capabilities import capabilities, restrict

    able = capabilities(job.target.engine, job.target.accelerator)
    return restrict(default_space(read_architecture(parent)[0], job.search), able)


def memory(percent: int) -> Budget:
    return Budget(limits=(Limit(metric=Metric.MEMORY, percent_of_parent=percent),))


def decode(percent: int) -> Budget:
    limit = Limit(metric=Metric.TIME_PER_OUTPUT_TOKEN, percentile=50, percent_of_parent=percent)
    return Budget(limits=(limit,))


def test_a_known_table_is_used_and_said(contexts: Callable[[Budget], StageContext]) -> None:
    context = contexts(decode(99))
    summary = run(context)
    assert summary.stage is Stage.PROFILE
    assert summary.outcome is Outcome.DONE
    assert summary.figures["table"] == "reused"
    assert "smallest reachable" in summary.message
    assert len(documents.dump(summary)) < 4096
    assert isinstance(context.progress, Recorder)
    assert "nothing is measured" in context.progress.said[0]
    assert load_model(context.output_dir).table.source_revision == REVISION
    assert bundle(context.output_dir)


def test_outputs_do_not_depend_on_the_budget(contexts: Callable[[Budget], StageContext]) -> None:
    first, second = contexts(decode(99)), contexts(memory(200))
    run(first)
    run(second)
    files = {path.name: path.read_bytes() for path in first.output_dir.iterdir()}
    assert files == {path.name: path.read_bytes() for path in second.output_dir.iterdir()}
    assert sorted(files) == [
        "cost_table.json",
        "held_out.json",
        "parent_costs.json",
        "space.json",
    ]


def test_a_budget_that_the_parent_meets(contexts: Callable[[Budget], StageContext]) -> None:
    summary = run(contexts(memory(100)))
    assert summary.outcome is Outcome.BUDGET_ALREADY_MET
    assert "meets the budget already: Memory: limit 2048 MiB, parent 2048 MiB" in summary.message


def test_an_impossible_budget(contexts: Callable[[Budget], StageContext]) -> None:
    with pytest.raises(InfeasibleError, match="Memory: limit 20 MiB, parent 2048 MiB, smallest"):
        run(contexts(memory(1)))


def test_a_context_beyond_the_parents(contexts: Callable[[Budget], StageContext]) -> None:
    context = contexts(memory(50))
    workload = replace(context.job.workload, context_tokens=1000)
    with pytest.raises(SpecError, match=r"contextTokens: 1000: the parent reaches 512 tokens"):
        run(replace(context, job=replace(context.job, workload=workload)))


def test_a_parent_without_its_tokenizer_is_refused_before_anything_is_measured(contexts, tmp_path):
    (tmp_path / "parent" / "tokenizer.json").unlink()
    limit = Limit(metric=Metric.MEMORY, percent_of_parent=80)
    with pytest.raises(DataError, match="has no tokenizer"):
        run(contexts(Budget(limits=(limit,))))
