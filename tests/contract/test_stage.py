from dataclasses import fields, is_dataclass, replace

import pytest

from autocompress.contract.stage import (
    UPSTREAM,
    FileEntry,
    Outcome,
    Stage,
    Summary,
    input_digest,
    next_stage,
    output_digest,
)
from autocompress.domain.budget import Budget, Limit, Metric
from autocompress.domain.deployment import AcceleratorKind, EngineName, Precision

P, S, R, V = Stage.PROFILE, Stage.SEARCH, Stage.RECOVER, Stage.VALIDATE
EVERY = {P, S, R, V}

#: Every field of a job: another value, and the stages that read it (``None``: none does).
READ_BY = {
    "name": ("other", set()),
    "source.uri": ("hf://a/b", set()),  # its content is in source_revision
    "source.revision": ("main", set()),
    "target.accelerator.kind": (AcceleratorKind.GPU, EVERY),
    "target.accelerator.product": ("NVIDIA-L40S", EVERY),
    "target.accelerator.count": (2, EVERY),
    "target.accelerator.min_memory_bytes": (1, EVERY),
    "target.accelerator.min_compute_major": (8, EVERY),
    "target.engine.name": (EngineName.TRANSFORMERS, EVERY),
    "target.engine.version": ("0.33.0", EVERY),
    "target.engine.tensor_parallel": (2, EVERY),
    "target.engine.flags": (("--x",), EVERY),
    "target.precision": (Precision.FP32, EVERY),
    "workload.prompt_tokens": (33, {P, S, V}),
    "workload.output_tokens": (9, {P, S, V}),
    "workload.concurrency": (2, {P, S, V}),
    "workload.context_tokens": (41, {P, S, V}),
    "workload.max_sequences": (2, {P, S, V}),
    "workload.request_set_uri": ("file:///x", {P, S, V}),
    "budget.limits": ((Limit(metric=Metric.MEMORY, bound=1.0),), {P, S, V}),
    "budget.min_utilization_percent": (80, {P, S, V}),
    "quality.suite": ("other", {V}),
    "quality.limit": (10, {V}),
    "quality.min_retention_percent": (91, {V}),
    "search.steps": (1, {S}),
    "search.step_tokens": (256, {S}),
    "search.sequence_tokens": (128, {S}),
    "search.seed": (8, {S}),
    "search.learning_rate": (1e-5, {S}),
    "search.router_learning_rate": (1e-5, {S}),
    "search.calibration_tokens": (1, {S}),
    "search.hidden_sizes": ((64,), {P, S}),
    "search.intermediate_sizes": ((64,), {P, S}),
    "recovery.tokens": (512, {R}),
    "recovery.step_tokens": (256, {R}),
    "recovery.sequence_tokens": (128, {R}),
    "recovery.learning_rate": (1e-5, {R}),
    "recovery.seed": (8, {R}),
    "recovery.checkpoint_every_steps": (1, {R}),
    "text.uri": ("file:///x", {S, R}),
}
#: With one value only in this version, so that there is no other to try.
SINGLE = {"search.method"}


def changed(value, path, new):
    name, _, rest = path.partition(".")
    return replace(value, **{name: changed(getattr(value, name), rest, new) if rest else new})


def paths(value, prefix=""):
    for field in fields(value):
        here = getattr(value, field.name)
        if is_dataclass(here) and not isinstance(here, Budget):
            yield from paths(here, f"{prefix}{field.name}.")
        elif isinstance(here, Budget):
            yield from (f"{prefix}{field.name}.{part.name}" for part in fields(here))
        else:
            yield prefix + field.name


def digests(job, source_revision="sha256:parent", upstream="sha256:up"):
    return {
        stage: input_digest(
            stage,
            job,
            source_revision=source_revision,
            upstream=dict.fromkeys(UPSTREAM[stage], upstream),
        )
        for stage in Stage
    }


def test_the_table_knows_every_field_of_a_job(job):
    assert set(paths(job)) == set(READ_BY) | SINGLE


@pytest.mark.parametrize("path", READ_BY)
def test_a_field_changes_the_digests_of_the_stages_that_read_it(job, path):
    new, readers = READ_BY[path]
    before, after = digests(job), digests(changed(job, path, new))
    assert {stage for stage in Stage if before[stage] != after[stage]} == readers


def test_other_parents_and_other_upstream_results_change_digests(job):
    before = digests(job)
    assert all(before[stage] != digests(job, source_revision="x")[stage] for stage in Stage)
    after = digests(job, upstream="x")
    assert {stage for stage in Stage if before[stage] != after[stage]} == {S, R, V}


def test_stages_of_one_job_have_different_digests(job):
    assert len(set(digests(job).values())) == 4


def test_a_missing_upstream_digest_is_an_error(job):
    with pytest.raises(KeyError):
        input_digest(Stage.SEARCH, job, source_revision="x", upstream={})


def test_output_digests_cover_names_and_contents():
    files = {"a": FileEntry(digest="sha256:1", size_bytes=1)}
    assert output_digest(files) == output_digest({"a": FileEntry(digest="sha256:1", size_bytes=2)})
    assert output_digest(files) != output_digest({"b": FileEntry(digest="sha256:1", size_bytes=1)})
    assert output_digest(files) != output_digest({"a": FileEntry(digest="sha256:2", size_bytes=1)})


def done(*stages, last=Outcome.DONE):
    outcomes = [Outcome.DONE] * (len(stages) - 1) + [last]
    return {
        stage: Summary(stage=stage, outcome=outcome)
        for stage, outcome in zip(stages, outcomes, strict=True)
    }


@pytest.mark.parametrize(
    ("finished", "expected"),
    [
        ({}, P),
        (done(P), S),
        (done(P, S), R),
        (done(P, S, R), V),
        (done(P, S, R, V), None),
        (done(P, last=Outcome.BUDGET_ALREADY_MET), None),
        (done(P, S, R, V, last=Outcome.BUDGET_NOT_MET), None),
        (done(P, S, R, V, last=Outcome.QUALITY_NOT_MET), None),
        (done(P, R, V), S),
    ],
)
def test_the_next_stage_is_the_first_gap_until_the_job_has_ended(finished, expected):
    assert next_stage(finished) is expected
