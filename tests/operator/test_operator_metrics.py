"""Series at a scrape: of what is there, no more, and gone with it."""

import asyncio

import pytest
from operator_cluster import model_cluster
from operator_samples import GPU, job_object, spec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from autocompress_operator.cache import Cache
from autocompress_operator.metrics import JobCollector, OperatorCollector, OperatorMetrics
from autocompress_operator.resources import Kind
from autocompress_operator.store import Store

JOB = {"namespace": "team-a", "name": "small"}


def finished_job(spec_=None):
    cluster = model_cluster(spec_)
    for _ in range(5):
        asyncio.run(cluster.finish_stage())
    return cluster


@pytest.fixture
def cache():
    return Cache()


def scrape(*collectors):
    registry = CollectorRegistry()
    for collector in collectors:
        registry.register(collector)
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(generate_latest(registry).decode())
        for sample in family.samples
    }


def value(series, name, **labels):
    return series[(name, *sorted({**JOB, **labels}.items()))]


def test_a_finished_job_is_told_in_base_units(cache):
    Store(cache).put(Kind.COMPRESSION_JOBS, finished_job(spec(GPU)).job)
    series = scrape(JobCollector(cache, max_jobs=10))
    assert value(series, "compressionjob_info", accelerator="NVIDIA-L40S", engine="VLLM") == 1
    ready = "compressionjob_status_condition"
    assert value(series, ready, type="Ready", status="True") == 1
    assert value(series, ready, type="Ready", status="False") == 0
    assert value(series, "compressionjob_stage_state", stage="Recover", state="Succeeded") == 1
    memory = {"constraint": "Memory"}
    assert value(series, "compressionjob_budget_limit_bytes", **memory) == 25_769_803_776
    assert value(series, "compressionjob_budget_predicted_bytes", **memory) == 20_000_000_000
    assert value(series, "compressionjob_budget_measured_bytes", **memory) == 24_000_000_000
    assert value(series, "compressionjob_budget_utilization_ratio", **memory) == 0.93
    retention = "compressionjob_quality_retention_ratio"
    assert value(series, retention, suite="default") == pytest.approx(0.984)


def test_milliseconds_become_seconds(cache):
    made = finished_job().job
    made["status"]["budgetReport"] = [
        {"name": "TimePerOutputTokenP95", "unit": "ms", "limit": "25", "measured": "24.5"},
        {"name": "OutputThroughput", "unit": "tokens/s", "limit": "1800"},
    ]
    Store(cache).put(Kind.COMPRESSION_JOBS, made)
    series = scrape(JobCollector(cache, max_jobs=10))
    time = {"constraint": "TimePerOutputTokenP95"}
    assert value(series, "compressionjob_budget_limit_seconds", **time) == 0.025
    assert value(series, "compressionjob_budget_measured_seconds", **time) == 0.0245
    assert (
        "compressionjob_budget_predicted_seconds",
        *sorted({**JOB, **time}.items()),
    ) not in series
    rate = {"constraint": "OutputThroughput"}
    assert value(series, "compressionjob_budget_limit_tokens_per_second", **rate) == 1800


def test_series_go_with_the_job_and_no_label_grows_without_bound(cache):
    store = Store(cache)
    made = finished_job().job
    store.put(Kind.COMPRESSION_JOBS, made)
    series = scrape(JobCollector(cache, max_jobs=10))
    labels = {name for _, *pairs in series for name, _ in pairs}
    assert labels == {
        "namespace",
        "name",
        "accelerator",
        "engine",
        "type",
        "status",
        "stage",
        "state",
        "constraint",
        "suite",
    }
    store.drop(Kind.COMPRESSION_JOBS, made)
    assert set(scrape(JobCollector(cache, max_jobs=10))) == {
        ("compression_operator_jobs_without_series",)
    }


def test_more_jobs_than_the_cap_are_counted_and_not_shown(cache):
    store = Store(cache)
    for number in range(5):
        store.put(Kind.COMPRESSION_JOBS, job_object(name=f"j{number}", uid=f"u{number}"))
    series = scrape(JobCollector(cache, max_jobs=2))
    shown = {key for key in series if key[0] == "compressionjob_info"}
    assert len(shown) == 2
    assert series[("compression_operator_jobs_without_series",)] == 3


def test_a_spec_that_cannot_be_read_has_series_too(cache):
    Store(cache).put(Kind.COMPRESSION_JOBS, job_object({}))
    series = scrape(JobCollector(cache, max_jobs=10))
    assert value(series, "compressionjob_info", accelerator="", engine="") == 1


def test_the_operator_tells_of_itself():
    collector = OperatorCollector(depth=lambda: 3, last_seen=lambda: {"jobs": 17.0})
    series = scrape(collector)
    assert series[("compression_operator_queue_depth",)] == 3
    seen = "compression_operator_last_watch_event_timestamp_seconds"
    assert series[(seen, ("resource", "jobs"))] == 17


def test_stages_are_counted_when_their_end_is_written():
    registry = CollectorRegistry()
    metrics = OperatorMetrics(registry)
    cluster = model_cluster()
    asyncio.run(cluster.finish_stage())
    before = cluster.status
    cluster.pass_time(30)
    asyncio.run(cluster.finish_stage())
    done = cluster.status
    cluster.pass_time(30)
    asyncio.run(cluster.finish_stage(65))
    failed = cluster.status
    for then, now in ((before, done), (done, done), (done, failed), (failed, failed)):
        metrics.wrote(then, now)

    def count(**labels):
        return registry.get_sample_value("compression_stages_completed_total", labels)

    assert count(stage="Profile", outcome="Done", reason="") == 1
    assert count(stage="Search", outcome="Failed", reason="BadData") == 1
    seconds = "compression_stage_duration_seconds_count"
    assert registry.get_sample_value(seconds, {"stage": "Profile"}) == 1
