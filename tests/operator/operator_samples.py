"""Objects as an API server shows them, for tests of the operator."""

import json
from datetime import UTC, datetime, timedelta

from autocompress.api import names
from autocompress.contract.documents import dump
from autocompress.contract.errors import Reason
from autocompress.contract.stage import Outcome
from autocompress.contract.termination import (
    CostReport,
    LimitReport,
    ModelReport,
    QualityReport,
    StageFault,
    StageReport,
    TaskReport,
)
from autocompress_operator.settings import Settings
from autocompress_operator.work import STAGES, Work

START = datetime(2026, 12, 1, 8, 0, 0, tzinfo=UTC)
UID = "0a1b2c3d-0000-4000-8000-000000000001"

SETTINGS = Settings(
    operator_image="registry/operator:1",
    stage_image_cpu="registry/stage-cpu:1",
    stage_image_cuda="registry/stage-cuda:1",
    stage_image_tensorrt_llm="registry/stage-tensorrt-llm:1",
)

CPU = {"kind": "CPU"}
GPU = {"kind": "GPU", "product": "NVIDIA-L40S", "count": 2, "minMemory": "44Gi"}


def at(seconds=0):
    """A time, counted from the beginning of a test."""
    return START + timedelta(seconds=seconds)


def text(time):
    """As the API server writes it."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def spec(accelerator=CPU, **fields):
    """The spec of a small job; keywords replace its parts."""
    return {
        "source": {"uri": "s3://models/parent"},
        "target": {
            "accelerator": accelerator,
            "precision": "BF16",
            "engine": {"name": "VLLM", "version": "0.32.0"},
            "workload": {"promptTokens": 128, "outputTokens": 64},
        },
        "budget": {"memory": {"max": "24Gi"}},
        "artifacts": {
            "uri": "s3://bucket/prefix",
            "endpoint": "http://minio:9000",
            "credentialsSecretRef": {"name": "s3"},
        },
        **fields,
    }


def job_object(spec_=None, *, status=None, **metadata):
    """A CompressionJob."""
    return {
        "apiVersion": "autocompress.dev/v1alpha1",
        "kind": "CompressionJob",
        "metadata": {
            "name": "small",
            "namespace": "team-a",
            "uid": UID,
            "generation": 1,
            "resourceVersion": "1",
            "creationTimestamp": text(START),
            **metadata,
        },
        "spec": spec_ if spec_ is not None else spec(),
        "status": status or {},
    }


def child_object(
    work,
    *,
    attempt=1,
    created=START,
    kind="Job",
    name=None,
    labels=(),
    conditions=(),
    suspend=False,
    deleted=None,
    **status,
):
    """A Job, JobSet or TrainJob of the job above."""
    found = {
        "kind": kind,
        "metadata": {
            "name": name or f"small-{work}-{attempt:08x}",
            "namespace": "team-a",
            "uid": f"uid-{work}-{attempt}",
            "resourceVersion": "1",
            "creationTimestamp": text(created),
            "labels": {
                names.LABEL_MANAGED_BY: names.MANAGER,
                names.LABEL_JOB: "small",
                names.LABEL_STAGE: str(work),
                **dict(labels),
            },
            "annotations": {
                names.ANNOTATION_ATTEMPT: str(attempt),
                names.ANNOTATION_INPUT_DIGEST: "sha256:00",
            },
            "ownerReferences": [{"kind": "CompressionJob", "uid": UID, "controller": True}],
        },
        "spec": {"suspend": suspend},
        "status": {"conditions": list(conditions), **status},
    }
    if deleted is not None:
        found["metadata"]["deletionTimestamp"] = text(deleted)
    return found


def condition(type_, *, reason="", message="", status="True", time=START):
    """A condition of any object."""
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": text(time),
    }


def complete(time=START):
    """A Job's condition when it is done."""
    return condition("Complete", reason="CompletionsReached", time=time)


def gave_up(reason="BackoffLimitExceeded", message="", time=START):
    """A Job's condition when it is not."""
    return condition("Failed", reason=reason, message=message, time=time)


def pod_object(
    work,
    *,
    name=None,
    attempt=1,
    created=START,
    phase="Pending",
    state=None,
    conditions=(),
    node="node-1",
    index=None,
    deleted=None,
    **status,
):
    """A pod of a child."""
    found = {
        "metadata": {
            "name": name or f"small-{work}-pod",
            "namespace": "team-a",
            "uid": f"uid-{name or work}-pod",
            "resourceVersion": "1",
            "creationTimestamp": text(created),
            "labels": {names.LABEL_JOB: "small", names.LABEL_STAGE: str(work)},
            "annotations": {names.ANNOTATION_ATTEMPT: str(attempt)},
        },
        "spec": {"nodeName": node} if node else {},
        "status": {
            "phase": phase,
            "podIP": "10.0.0.7",
            "conditions": list(conditions),
            "containerStatuses": [
                {
                    "name": names.STAGE_CONTAINER,
                    "imageID": "registry/stage-cpu@sha256:77",
                    "state": state,
                }
            ]
            if state is not None
            else [],
            **status,
        },
    }
    if index is not None:
        found["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] = str(index)
    if deleted is not None:
        found["metadata"]["deletionTimestamp"] = text(deleted)
    return found


def running(since=START):
    """The state of a container that runs."""
    return {"running": {"startedAt": text(since)}}


def waiting(reason, message=""):
    """The state of a container that does not run yet."""
    return {"waiting": {"reason": reason, "message": message}}


def ended(code, message="", *, reason=None, finished=START):
    """The state of a container that ended."""
    usual = "Completed" if code == 0 else "OOMKilled" if code == 137 else "Error"
    return {
        "terminated": {
            "exitCode": code,
            "reason": reason or usual,
            "message": message,
            "startedAt": text(finished),
            "finishedAt": text(finished),
        }
    }


def event_object(message, *, job="small-profile-00000001", seen=START, reason="FailedCreate"):
    """A warning of the Job controller."""
    return {
        "metadata": {
            "name": "event",
            "namespace": "team-a",
            "uid": "uid-event",
            "creationTimestamp": text(START),
        },
        "involvedObject": {"kind": "Job", "name": job},
        "reason": reason,
        "message": message,
        "type": "Warning",
        "lastTimestamp": text(seen),
    }


def node_object(name, *, gpus="8", **labels):
    """A node; keywords are GPU labels, with _ for every . behind nvidia.com/."""
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "creationTimestamp": text(START),
            "labels": {f"nvidia.com/{key.replace('_', '.')}": v for key, v in labels.items()},
        },
        "status": {"allocatable": {"nvidia.com/gpu": gpus}},
    }


def fault(work, reason=Reason.BAD_DATA, message="spec.source.uri: is no model; give one"):
    """The termination message of a stage that failed."""
    return dump(StageFault(stage=str(work), reason=reason, message=message)).decode()


def report(work, outcome=Outcome.DONE, **fields):
    """The termination message of a stage that is done."""
    return dump(stage_report(work, outcome, **fields)).decode()


def stage_report(work, outcome=Outcome.DONE, **fields):
    """What a stage that is done tells, with all its parts."""
    work = Work(work)
    given = {"stage": work.value, "outcome": outcome, "message": f"{work.value} is done"}
    if work in STAGES:
        given |= {
            "source_revision": "sha256:parent",
            "input_digest": f"sha256:in-{work.value}",
            "output_digest": f"sha256:out-{work.value}",
            "manifest_uri": f"s3://bucket/prefix/{work.value}/manifest.json",
            "cost": CostReport(
                wall_seconds=90.4,
                device_hours=0.025,
                tokens=1000,
                engine_starts=2,
                bytes_moved=4096,
            ),
        }
    if work is Work.PREFLIGHT:
        given["source_revision"] = "sha256:parent"
    if work is Work.VALIDATE:
        met = outcome is not Outcome.BUDGET_NOT_MET
        given["budget"] = (
            LimitReport(
                name="Memory",
                unit="bytes",
                limit=25_769_803_776,
                predicted=20_000_000_000,
                measured=24_000_000_000 if met else 26_000_000_000,
                met=met,
                utilization_percent=93.1 if met else 100.9,
            ),
        )
        given["quality"] = QualityReport(
            suite="default",
            baseline=0.712,
            measured=0.701,
            retention_percent=98.4,
            tasks=(TaskReport(name="piqa", baseline=0.67, measured=0.655, standard_error=0.011),),
        )
        if outcome is Outcome.DONE:
            given["model"] = ModelReport(
                uri="s3://bucket/prefix/models/77",
                manifest_uri="s3://bucket/prefix/models/77/manifest.json",
                digest="sha256:77",
            )
    return StageReport(**{**given, **fields})


def pretty(value):
    """JSON as snapshots keep it."""
    return json.dumps(value, indent=2, sort_keys=True) + "\n"
