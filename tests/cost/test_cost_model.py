"""Predictions are sums over blocks, and equal the measurement at the parent."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocompress.contract import documents
from autocompress.contract.errors import DataError
from autocompress.cost.exchange import bundle, unbundle, write_shared
from autocompress.cost.model import load_model, smallest_reachable, step_costs
from autocompress.cost.show import table_rows
from autocompress.cost.space import default_space
from autocompress.cost.table import SPACE_FILE, table_key
from autocompress.domain.architecture import Architecture, Attention, Mlp
from autocompress.domain.budget import PERCENTILES, Limit, Metric
from autocompress.domain.costs import Percentiles
from autocompress.domain.deployment import Workload
from autocompress.domain.job import SearchSettings
from autocompress.store import artifacts
from autocompress.store.directory import DirectoryStore
from autocompress.testing.costs import made_up_model

PARENT = Architecture(
    hidden_size=256,
    vocab_size=1024,
    tied_embeddings=True,
    blocks=(Attention(query_heads=6, kv_heads=2, head_dim=32), Mlp(intermediate_size=512)) * 3,
)
SPACE = default_space(PARENT, SearchSettings())
WORKLOAD = Workload(
    prompt_tokens=64, output_tokens=16, concurrency=2, context_tokens=200, max_sequences=3
)
MODEL = made_up_model(SPACE, WORKLOAD)
LIMITS = [
    *(
        Limit(metric=metric, percentile=percentile, percent_of_parent=80)
        for metric in Metric
        if metric.is_latency
        for percentile in PERCENTILES
    ),
    Limit(metric=Metric.OUTPUT_THROUGHPUT, percent_of_parent=120),
    Limit(metric=Metric.MEMORY, percent_of_parent=80),
]


@given(data=st.data(), limit=st.sampled_from(LIMITS))
def test_the_sum_is_the_prediction(data: st.DataObject, limit: Limit) -> None:
    hidden = data.draw(st.integers(0, len(SPACE.hidden_size) - 1))
    chosen = [
        data.draw(st.integers(0, len(list(choices.candidates())) - 1)) for choices in SPACE.blocks
    ]
    architecture = SPACE.at(
        SPACE.hidden_size[hidden],
        tuple(
            list(choices.candidates())[place]
            for choices, place in zip(SPACE.blocks, chosen, strict=True)
        ),
    )
    cost = MODEL.additive(limit, SPACE)
    total = cost.overhead[hidden] + sum(
        cost.blocks[hidden][index][place] for index, place in enumerate(chosen)
    )
    value = MODEL.predict(architecture, WORKLOAD).value(limit)
    expected = 1 / value if limit.metric is Metric.OUTPUT_THROUGHPUT else value
    assert total == pytest.approx(expected, rel=1e-9)


def test_a_slow_server_slows_every_architecture_by_the_same_factor() -> None:
    measured = MODEL.parent_costs
    slower = replace(
        measured,
        time_per_output_token=Percentiles(
            **{name: 3 * value for name, value in asdict(measured.time_per_output_token).items()}
        ),
    )
    small = SPACE.at(SPACE.hidden_size[-1], tuple(list(c.candidates())[-1] for c in SPACE.blocks))
    before, after = (
        replace(MODEL, parent_costs=costs).predict(small, WORKLOAD).time_per_output_token.p95
        for costs in (measured, slower)
    )
    assert after == pytest.approx(3 * before)
    steps, of_parent = (step_costs(MODEL.table, each).decode_seconds for each in (small, PARENT))
    assert before / measured.time_per_output_token.p95 == pytest.approx(steps / of_parent)


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.name)
def test_the_parent_costs_what_it_measured(limit: Limit) -> None:
    predicted = MODEL.predict(PARENT, WORKLOAD)
    assert predicted.value(limit) == pytest.approx(MODEL.parent_costs.value(limit), rel=1e-9)


def test_memory_counts_weights_and_kv_blocks_exactly() -> None:
    smaller = SPACE.at(256, (*PARENT.blocks[:-1], Mlp(intermediate_size=256)))
    saved = MODEL.predict(PARENT, WORKLOAD).memory_bytes
    saved -= MODEL.predict(smaller, WORKLOAD).memory_bytes
    weights = PARENT.weight_bytes(2) - smaller.weight_bytes(2)
    buffers = (PARENT.blocks[1].parameters(256) // 8) - (smaller.blocks[-1].parameters(256) // 8)
    assert saved == weights + buffers
    # 200 tokens are two blocks of 128, for three sequences, and one block that the engine keeps.
    fewer_heads = SPACE.at(
        256, (Attention(query_heads=3, kv_heads=1, head_dim=32), *PARENT.blocks[1:])
    )
    kv = (2 * 3 + 1) * 128 * 2 * 32 * 2
    first, other = PARENT.blocks[0], fewer_heads.blocks[0]
    weights = 2 * (first.parameters(256) - other.parameters(256))
    buffers = first.parameters(256) // 8 - other.parameters(256) // 8
    saved = MODEL.predict(PARENT, WORKLOAD).memory_bytes
    assert saved - MODEL.predict(fewer_heads, WORKLOAD).memory_bytes == kv + weights + buffers


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.name)
def test_nothing_is_better_than_the_smallest_reachable(limit: Limit) -> None:
    best = smallest_reachable(MODEL, SPACE, limit, WORKLOAD)
    value = MODEL.predict(SPACE.smallest(), WORKLOAD).value(limit)
    assert value == pytest.approx(best, rel=1e-9)


def test_another_workload_is_refused() -> None:
    other = Workload(
        prompt_tokens=32, output_tokens=16, concurrency=2, context_tokens=200, max_sequences=3
    )
    with pytest.raises(DataError, match="run the profile stage for this workload"):
        MODEL.predict(PARENT, other)


def test_an_unknown_block_is_named() -> None:
    with pytest.raises(DataError, match="intermediate_size=100"):
        MODEL.predict(SPACE.at(256, (Mlp(intermediate_size=100),)), WORKLOAD)


def test_errors_by_metric() -> None:
    assert MODEL.error[Metric.TIME_TO_FIRST_TOKEN] == pytest.approx(0.02)
    assert MODEL.error[Metric.TIME_PER_OUTPUT_TOKEN] == pytest.approx(0.03)
    assert MODEL.error[Metric.OUTPUT_THROUGHPUT] == pytest.approx(0.03)
    assert MODEL.error[Metric.MEMORY] == pytest.approx(0.01)


def test_rows_have_every_block_and_overhead() -> None:
    rows = table_rows(MODEL.table)
    assert len(rows.rows) == len(MODEL.table.blocks) + len(MODEL.table.overheads)
    assert {len(row) for row in rows.rows} == {len(rows.header)}
    assert any("6 q / 2 kv x 32" in row for row in rows.rows)


def test_a_table_travels_between_stores(tmp_path: Path) -> None:
    folder = tmp_path / "profile"
    write_shared(
        folder,
        table=MODEL.table,
        parent_costs=MODEL.parent_costs,
        held_out=MODEL.held_out,
    )
    (folder / SPACE_FILE).write_bytes(documents.dump(SPACE))
    store = DirectoryStore(tmp_path / "store")
    prefix = unbundle(store, bundle(folder), name="table.json")
    table = MODEL.table
    key = table_key(table.conditions, SPACE, WORKLOAD, table.source_revision)
    manifest = artifacts.find(store, prefix, input_digest=key)
    assert manifest is not None
    artifacts.fetch(store, prefix, manifest, tmp_path / "fetched")
    (tmp_path / "fetched" / SPACE_FILE).write_bytes(documents.dump(SPACE))
    again = load_model(tmp_path / "fetched")
    assert (again.table, again.parent_costs) == (MODEL.table, MODEL.parent_costs)


def test_a_missing_document_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"space\.json"):
        load_model(tmp_path)
