"""Status on a real API server: what the operator writes, who owns it, and what people see."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
import yaml
from clusters import Refused, job_path

from autocompress.api.v1alpha1.status import (
    MESSAGE_CHARACTERS,
    Attempts,
    CompressionJobStatus,
    Condition,
    ConditionReason,
    ConditionStatus,
    ConditionType,
    Failure,
    FailureReason,
    JobCost,
    JobRef,
    LimitStatus,
    Progress,
    QualityStatus,
    Resolved,
    Result,
    StageCost,
    StageName,
    StageOutputs,
    StageState,
    StageStatus,
    StepName,
    TaskStatus,
)
from autocompress.contract.stage import Outcome
from job_samples import SMALLEST, with_changes

JOB = yaml.safe_load(with_changes(SMALLEST, spec__artifacts={"uri": "s3://bucket/prefix"}))
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
OPERATOR = "autocompress-operator"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def condition(type_, status="True", reason=ConditionReason.SUCCEEDED, message=""):
    return Condition(
        type=type_,
        status=ConditionStatus(status),
        observed_generation=1,
        last_transition_time=NOW,
        reason=reason,
        message=message,
    )


def whole_status():
    """Every field, at its bound where it has one that matters for size."""
    failure = Failure(
        reason=FailureReason.OOM_KILLED,
        message="x" * MESSAGE_CHARACTERS,
        exit_code=137,
        pod="small-recover-1a2b3c4d-x7k2p",
        node="node-1",
    )
    stages = tuple(
        StageStatus(
            name=name,
            state=StageState.SUCCEEDED,
            attempt=2,
            input_digest="sha256:" + "0" * 64,
            job_ref=JobRef(api_version="batch/v1", kind="Job", name="small-recover-1a2b3c4d"),
            start_time=NOW,
            completion_time=NOW,
            last_failure=failure,
            outcome=Outcome.DONE,
            message="done",
            outputs=StageOutputs(manifest_uri="s3://b/manifest.json", digest="sha256:" + "1" * 64),
            progress=Progress(percent=100, estimated_remaining_seconds=0),
        )
        for name in StageName
    )
    return CompressionJobStatus(
        observed_generation=1,
        last_handled_retry_at="2026-05-01",
        current_stage=StepName.VALIDATE,
        start_time=NOW,
        completion_time=NOW,
        resolved=Resolved(
            source_revision="sha256:" + "2" * 64,
            accelerator_product="NVIDIA-L40S",
            node="node-1",
            driver_version="580.95.05",
            cuda_version="13.0",
            images=dict.fromkeys(StageName, "registry/stage@sha256:" + "3" * 64),
        ),
        preflight=Attempts(state=StageState.SUCCEEDED, last_failure=failure),
        stages=stages,
        budget_report=(
            LimitStatus(
                name="TimePerOutputTokenP95",
                unit="ms",
                limit="25",
                predicted="23.1",
                measured="24.0",
                met=True,
                utilization_percent=96,
            ),
            LimitStatus(name="Memory", unit="bytes", limit="25769803776"),
        ),
        quality=QualityStatus(
            suite="default",
            baseline="0.712",
            measured="0.701",
            retention_percent="98.4",
            tasks=(
                TaskStatus(name="piqa", baseline="0.67", measured="0.655", standard_error="0.011"),
            ),
        ),
        cost=JobCost(
            device_hours="3.2",
            wall_seconds=15120,
            tokens=2_100_000,
            engine_starts=4,
            bytes_moved=1 << 40,
            stages=tuple(
                StageCost(name=name, device_hours="0.4", wall_seconds=1500) for name in StageName
            ),
        ),
        result=Result(
            model_uri="s3://b/models/x", digest="sha256:" + "4" * 64, manifest_uri="s3://b/m.json"
        ),
        conditions=tuple(condition(type_) for type_ in ConditionType),
    )


def body(status):
    value = status.model_dump(mode="json", exclude_none=True)
    return {
        "apiVersion": JOB["apiVersion"],
        "kind": JOB["kind"],
        "metadata": {"name": "small"},
        "status": value,
    }


def write(api, namespace, status, manager=OPERATOR):
    return api.apply(job_path(namespace, "small", "status"), body(status), manager=manager)


@pytest.fixture
def made(api, namespace):
    return api.create(job_path(namespace), JOB)


def test_a_new_job_is_behind_its_generation(made):
    """So that nothing takes it for finished before an operator has looked at it."""
    assert made["status"] == {"observedGeneration": 0}
    assert made["metadata"]["generation"] == 1


def test_the_whole_status_is_kept_as_it_was_written(api, namespace, made):
    after = write(api, namespace, whole_status())
    assert CompressionJobStatus.model_validate(after["status"]) == whole_status()
    assert after["spec"] == made["spec"]


def test_writing_the_same_again_changes_nothing(api, namespace, made):
    first = write(api, namespace, whole_status())
    again = write(api, namespace, whole_status())
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_what_the_operator_leaves_out_is_removed_and_what_others_wrote_is_kept(
    api, namespace, made
):
    write(api, namespace, whole_status())
    foreign = {**body(CompressionJobStatus())}
    foreign["status"] = {
        "conditions": [
            {
                "type": "Promoted",
                "status": "True",
                "observedGeneration": 1,
                "lastTransitionTime": "2026-05-01T12:00:00Z",
                "reason": "Merged",
            }
        ]
    }
    with pytest.raises(Refused, match=r"Unsupported value: \"Promoted\""):
        api.apply(job_path(namespace, "small", "status"), foreign, manager="promoter")
    foreign["status"] = {"lastHandledRetryAt": "by hand"}
    api.apply(job_path(namespace, "small", "status"), foreign, manager="promoter")
    ready = CompressionJobStatus(conditions=(condition(ConditionType.READY),))
    after = write(api, namespace, ready)["status"]
    assert [found["type"] for found in after["conditions"]] == ["Ready"]
    assert after["lastHandledRetryAt"] == "by hand"
    assert "result" not in after
    assert "stages" not in after or after["stages"] == []


def test_one_condition_moves_without_the_others(api, namespace, made):
    write(api, namespace, whole_status())
    changed = whole_status().model_copy(
        update={
            "conditions": tuple(
                condition(type_, "False" if type_ is ConditionType.READY else "True")
                for type_ in ConditionType
            )
        }
    )
    after = CompressionJobStatus.model_validate(write(api, namespace, changed)["status"])
    assert after.condition(ConditionType.READY).status is ConditionStatus.FALSE
    assert after.condition(ConditionType.STALLED).status is ConditionStatus.TRUE


def test_status_and_spec_are_written_by_their_own_paths(api, namespace, made):
    path = job_path(namespace, "small")
    after = api.merge(path, {"status": {"currentStage": "Search"}})
    assert "currentStage" not in after["status"]
    after = api.merge(f"{path}/status", {"spec": {"suspend": True}})
    assert after["spec"] == made["spec"]


def test_only_the_spec_counts_generations(api, namespace, made):
    assert write(api, namespace, whole_status())["metadata"]["generation"] == 1
    path = job_path(namespace, "small")
    labelled = api.merge(path, {"metadata": {"annotations": {"autocompress.dev/retry-at": "1"}}})
    assert labelled["metadata"]["generation"] == 1
    assert api.merge(path, {"spec": {"suspend": True}})["metadata"]["generation"] == 2


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"conditions": [{"type": "Ready", "status": "Yes"}]}, "status.conditions[0].status"),
        ({"budgetReport": [{"name": "Memory", "unit": "bytes", "limit": "1e3"}]}, "limit"),
        ({"budgetReport": [{"name": "Memory", "unit": "MiB", "limit": "1"}]}, "unit"),
        ({"currentStage": "Publish"}, "status.currentStage"),
        ({"stages": [{"name": "Search", "message": "x" * 1025}]}, "status.stages[0].message"),
        ({"stages": [{"name": "Search", "attempt": 0}]}, "status.stages[0].attempt"),
        ({"stages": [{"name": "Search", "lastFailure": {"reason": "Bad"}}]}, "reason"),
        ({"startTime": "yesterday"}, "status.startTime"),
        ({"quality": {"suite": "default"}}, "status.quality.baseline"),
    ],
)
def test_a_status_that_is_none_is_refused(api, namespace, made, change, field):
    with pytest.raises(Refused) as caught:
        api.merge(job_path(namespace, "small", "status"), {"status": change})
    assert caught.value.code == 422
    assert any(found.endswith(field) for found, _ in caught.value.causes), caught.value.causes


def table(api, namespace):
    found = api.request("GET", job_path(namespace), accept=TABLE)
    names = [column["name"] for column in found["columnDefinitions"]]
    (row,) = found["rows"]
    wide = {column["name"] for column in found["columnDefinitions"] if column["priority"]}
    return dict(zip(names, row["cells"], strict=True)), wide


def test_columns_of_a_job_that_nobody_has_looked_at(api, namespace, made):
    row, wide = table(api, namespace)
    assert list(row) == [
        *("Name", "Stage", "Progress", "Ready", "Reason", "Budget", "Quality", "Age"),
        *("Target", "Digest", "Message"),
    ]
    assert wide == {"Target", "Digest", "Message"}
    assert row.pop("Name") == "small"
    assert row.pop("Age")
    assert set(row.values()) == {None}


def test_columns_of_a_job_at_work(api, namespace, made):
    stages = (
        StageStatus(name=StageName.PROFILE, state=StageState.SUCCEEDED),
        StageStatus(name=StageName.SEARCH, state=StageState.RUNNING, progress=Progress(percent=40)),
        StageStatus(name=StageName.RECOVER),
    )
    conditions = (
        # The column goes by type, not by order.
        condition(ConditionType.SUSPENDED, "False", ConditionReason.NOT_SUSPENDED),
        condition(ConditionType.READY, "False", ConditionReason.STAGE_RUNNING, "search runs"),
        condition(ConditionType.BUDGET_MET, "Unknown", ConditionReason.NOT_MEASURED),
        condition(ConditionType.QUALITY_MET, "Unknown", ConditionReason.NOT_MEASURED),
    )
    write(
        api,
        namespace,
        CompressionJobStatus(current_stage=StepName.SEARCH, stages=stages, conditions=conditions),
    )
    row, _ = table(api, namespace)
    del row["Age"]
    assert row == {
        "Name": "small",
        "Stage": "Search",
        "Progress": 40,
        "Ready": "False",
        "Reason": "StageRunning",
        "Budget": "Unknown",
        "Quality": "Unknown",
        "Target": None,
        "Digest": None,
        "Message": "search runs",
    }


def test_columns_of_a_finished_job(api, namespace, made):
    write(api, namespace, whole_status())
    row, _ = table(api, namespace)
    assert row["Stage"] == "Validate"
    assert row["Ready"] == row["Budget"] == row["Quality"] == "True"
    assert row["Digest"] == "sha256:" + "4" * 64
    assert row["Progress"] is None


def test_names_by_which_people_ask_for_jobs(api):
    (found,) = [
        resource
        for resource in api.get("/apis/autocompress.dev/v1alpha1")["resources"]
        if resource["name"] == "compressionjobs"
    ]
    assert found["shortNames"] == ["cj", "cpj"]
    assert found["categories"] == ["all", "autocompress"]
    assert found["namespaced"]


def test_one_short_name_is_ours_alone(api):
    taken = {
        short
        for path in ("/api/v1", "/apis/batch/v1", "/apis/apps/v1")
        for resource in api.get(path)["resources"]
        for short in resource.get("shortNames", [])
    }
    assert "cpj" not in taken


def test_the_definition_is_accepted_without_complaint(api):
    path = (
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/compressionjobs.autocompress.dev"
    )
    conditions = {found["type"]: found["status"] for found in api.get(path)["status"]["conditions"]}
    assert conditions["Established"] == conditions["NamesAccepted"] == "True"
    assert conditions.get("NonStructuralSchema", "False") == "False"


def test_the_largest_likely_status_stays_small():
    assert len(whole_status().model_dump_json(exclude_none=True)) < 16 * 1024
