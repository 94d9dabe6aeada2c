"""Verdicts and their words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autocompress.contract import documents
from autocompress.contract.stage import Outcome
from autocompress.domain.budget import Budget, Limit, Metric
from autocompress.domain.costs import MeasuredCosts, Percentiles, PredictedCosts
from autocompress.domain.deployment import (
    Accelerator,
    AcceleratorKind,
    Engine,
    EngineName,
    Precision,
    Target,
    Workload,
)
from autocompress.domain.job import Job, ModelSource
from autocompress.domain.records import Quality, Scorecard
from autocompress.evaluation.load_test import LoadResult
from autocompress.evaluation.scorecard import Served, Subject, scorecard, summary
from autocompress.testing.models import small_parent

LATENCY = Limit(metric=Metric.TIME_PER_OUTPUT_TOKEN, percentile=50, percent_of_parent=75)
MEMORY = Limit(metric=Metric.MEMORY, bound=1000.0)


def job(*limits: Limit) -> Job:
    return Job(
        name="j",
        source=ModelSource(uri="file:///m"),
        target=Target(
            accelerator=Accelerator(kind=AcceleratorKind.CPU),
            engine=Engine(name=EngineName.VLLM, version="1"),
            precision=Precision.BF16,
        ),
        workload=Workload(
            prompt_tokens=8, output_tokens=4, concurrency=1, context_tokens=16, max_sequences=1
        ),
        budget=Budget(limits=limits),
    )


def flat(seconds: float) -> Percentiles:
    return Percentiles(mean=seconds, p50=seconds, p90=seconds, p95=seconds, p99=seconds)


def served(per_token: float, memory: int, requests: int = 24) -> Served:
    load = LoadResult(
        time_to_first_token=flat(per_token * 5),
        time_per_output_token=flat(per_token),
        end_to_end_latency=flat(per_token * 9),
        output_tokens_per_second=1 / per_token,
        requests=requests,
        request_set_digest="sha256:r",
    )
    return Served(load=load, peak_memory_bytes=memory)


def quality(retention: float) -> Quality:
    return Quality(
        suite="s",
        tasks=(),
        texts=(),
        parent_mean=0.5,
        pruned_mean=0.3,
        compressed_mean=0.5 * retention / 100,
        retention_percent=retention,
        retention_error_percent=2.0,
        min_retention_percent=90,
        met=retention >= 90,
    )


def card(
    *limits: Limit,
    compressed: Served,
    retention: float = 95,
    profiled: float = 0.010,
) -> Scorecard:
    parent = served(0.010, 2000)
    costs = parent.costs
    return scorecard(
        job(*limits),
        Subject(
            source_revision="r",
            parent=small_parent(),
            compressed=small_parent(layers=1),
            export_format="plain",
            model_digest="sha256:m",
        ),
        device="CPU",
        engine_version="1",
        parent=parent,
        compressed=compressed,
        predicted=PredictedCosts(
            time_to_first_token=flat(0.03),
            time_per_output_token=flat(0.007),
            end_to_end_latency=flat(0.06),
            output_tokens_per_second=100.0,
            memory_bytes=900,
        ),
        profiled_parent=MeasuredCosts(
            time_to_first_token=costs.time_to_first_token,
            time_per_output_token=flat(profiled),
            end_to_end_latency=costs.end_to_end_latency,
            output_tokens_per_second=costs.output_tokens_per_second,
            memory_bytes=costs.memory_bytes,
        ),
        quality=quality(retention),
    )


def test_percent_limits_are_of_the_parent_beside_it() -> None:
    result = card(LATENCY, MEMORY, compressed=served(0.0074, 950))
    latency, memory = result.limits
    assert latency.bound == pytest.approx(0.0075)
    assert latency.predicted == 0.007
    assert latency.measured == 0.0074
    assert memory.utilization == pytest.approx(0.95)
    assert result.budget_met
    assert result.notes == ()
    assert result.parent_parameters > result.compressed_parameters
    verdict = summary(result)
    assert verdict.outcome is Outcome.DONE
    assert "TimePerOutputTokenP50 at 99%" in verdict.message
    assert len(documents.dump(verdict)) < 4096
    assert documents.load(Scorecard, documents.dump(result), name="s") == result


def test_a_missed_budget_says_by_how_much() -> None:
    verdict = summary(card(LATENCY, MEMORY, compressed=served(0.009, 950), retention=50))
    assert verdict.outcome is Outcome.BUDGET_NOT_MET
    assert "TimePerOutputTokenP50 measured 9.00 ms, limit 7.50 ms (20.0% over)" in verdict.message
    assert "Memory" not in verdict.message
    assert "Nothing was published" in verdict.message


def test_missed_quality_says_what_to_do() -> None:
    verdict = summary(card(LATENCY, compressed=served(0.007, 950), retention=80.04))
    assert verdict.outcome is Outcome.QUALITY_NOT_MET
    assert "80.0 %" in verdict.message
    assert "recovery.tokens" in verdict.message


def test_an_idle_budget_is_noted() -> None:
    (note,) = card(LATENCY, MEMORY, compressed=served(0.005, 500)).notes
    assert "TimePerOutputTokenP50, is used to 67%" in note


def test_a_tail_needs_requests() -> None:
    tail = replace(LATENCY, percentile=99)
    (note,) = card(tail, compressed=served(0.0074, 950)).notes
    assert "24 requests; 100" in note
    assert card(tail, compressed=served(0.0074, 950, requests=100)).notes == ()


def test_a_machine_that_changed_is_noted() -> None:
    (note,) = card(LATENCY, compressed=served(0.0074, 950), profiled=0.020).notes
    assert "20.00 ms when profiled" in note
