"""Manifests for each way to serve, as JSON values. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum

from pydantic import JsonValue

from autocompress.contract.errors import SpecError
from autocompress.domain.deployment import EngineName
from autocompress.promote import pod
from autocompress.promote.deployment import Deployment
from autocompress.promote.pod import Json

#: Where KServe's storage initializer puts a model.
_KSERVE_MODEL_DIR = "/mnt/models"
_KSERVE_PORT = 8080
_KSERVE_CONTAINER = "kserve-container"
_KSERVE_FORMAT = "autocompress"


class Format(StrEnum):
    """What to write."""

    KSERVE = "kserve"
    VLLM = "vllm"
    TENSORRT_LLM = "tensorrt-llm"
    KUSTOMIZE = "kustomize"


def manifests(deployment: Deployment, format_: Format) -> Mapping[str, tuple[Json, ...]]:
    """The documents of each file, by file name.

    Raises:
        SpecError: the model was measured with another engine, or something must be said that the
            job does not say.
    """
    writers: Mapping[Format, Callable[[Deployment], Mapping[str, tuple[Json, ...]]]] = {
        Format.KSERVE: _kserve,
        Format.VLLM: lambda each: _server(each, EngineName.VLLM),
        Format.TENSORRT_LLM: lambda each: _server(each, EngineName.TENSORRT_LLM),
        Format.KUSTOMIZE: _kustomize,
    }
    return writers[format_](deployment)


def _server(deployment: Deployment, engine: EngineName) -> Mapping[str, tuple[Json, ...]]:
    if deployment.engine is not engine:
        raise SpecError(
            f"--format: {engine.value} would serve a model that was measured with "
            f"{deployment.engine.value}; give --format "
            f"{Format.VLLM if deployment.engine is EngineName.VLLM else Format.TENSORRT_LLM} or "
            f"{Format.KSERVE}"
        )
    selector = pod.labels(deployment)
    workload: Json = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(deployment),
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": selector},
            "template": {
                "metadata": {"labels": selector, "annotations": dict(deployment.annotations)},
                "spec": pod.pod_spec(deployment),
            },
        },
    }
    service: Json = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(deployment),
        "spec": {
            "selector": selector,
            "ports": [{"name": "http", "port": 80, "targetPort": "http"}],
        },
    }
    return {f"{deployment.name}.yaml": (workload, service)}


def _kserve(deployment: Deployment) -> Mapping[str, tuple[Json, ...]]:
    runtime: Json = {
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": "ServingRuntime",
        "metadata": _metadata(deployment),
        "spec": {
            "supportedModelFormats": [{"name": _KSERVE_FORMAT, "version": "1"}],
            "containers": [
                {
                    "name": _KSERVE_CONTAINER,
                    "image": deployment.image,
                    "ports": [
                        {"name": "http", "containerPort": _KSERVE_PORT, "protocol": "TCP"},
                    ],
                    "volumeMounts": pod.scratch_mounts(),
                    **pod.server_behaviour(deployment),
                }
            ],
            "volumes": pod.scratch_volumes(),
            **pod.placement(deployment),
        },
    }
    annotations = {
        **deployment.annotations,
        # Node affinity and long starts are not for Knative; both spellings of this mode are known
        # to every version.
        "serving.kserve.io/deploymentMode": "RawDeployment",
    }
    if deployment.storage.secret:
        annotations["serving.kserve.io/storageSecretName"] = deployment.storage.secret
    service: Json = {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {**_metadata(deployment), "annotations": dict(annotations)},
        "spec": {
            "predictor": {
                "automountServiceAccountToken": False,
                "model": {
                    "modelFormat": {"name": _KSERVE_FORMAT, "version": "1"},
                    "runtime": deployment.name,
                    **_kserve_model(deployment),
                    "resources": _kserve_resources(deployment),
                },
            }
        },
    }
    return {f"{deployment.name}.yaml": (runtime, service)}


def _kserve_model(deployment: Deployment) -> Json:
    """All that changes from one promotion to the next stands in the InferenceService.

    KServe compares nothing with a digest, so the server does before it starts.
    """
    storage = deployment.storage
    served = deployment.command(_KSERVE_MODEL_DIR, port=_KSERVE_PORT)
    return {
        "storageUri": storage.uri,
        "image": deployment.image,
        "command": ["autocompress", "verify", _KSERVE_MODEL_DIR],
        "args": ["--digest", storage.digest, "--", *served],
    }


def _kserve_resources(deployment: Deployment) -> Json:
    limits = dict(deployment.limits)
    for name in ("cpu", "memory"):
        # Without limits of its own a model gets KServe's default ones, 1 CPU and 2Gi.
        amount = limits.setdefault(name, deployment.requests.get(name, ""))
        if not amount:
            raise SpecError(
                f"--{name}: the job does not say how much {name} the server needs, and KServe "
                f"would limit it to its own default; give --{name}, or resources in the job's "
                "stage template for Validate"
            )
    return pod.resources(deployment, limits)


def _kustomize(deployment: Deployment) -> Mapping[str, tuple[Json, ...]]:
    fetch = pod.fetch_container(deployment)
    server = pod.command(deployment.command(pod.MODEL_DIR, port=pod.PORT))
    workload: Json = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _patch_metadata(deployment),
        "spec": {
            "template": {
                "metadata": {"annotations": dict(deployment.annotations)},
                "spec": {
                    "initContainers": [
                        {key: fetch[key] for key in ("name", "image", "command", "args")}
                    ],
                    "containers": [
                        {"name": pod.SERVER_CONTAINER, "image": deployment.image, **server}
                    ],
                },
            }
        },
    }
    service: Json = {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": _patch_metadata(deployment),
        "spec": {"predictor": {"model": _kserve_model(deployment)}},
    }
    return {
        f"{deployment.name}-deployment-patch.yaml": (workload,),
        f"{deployment.name}-inferenceservice-patch.yaml": (service,),
    }


def _metadata(deployment: Deployment) -> Json:
    labels: dict[str, JsonValue] = dict(pod.labels(deployment))
    return {**_patch_metadata(deployment), "labels": labels}


def _patch_metadata(deployment: Deployment) -> Json:
    return {"name": deployment.name, "annotations": dict(deployment.annotations)}
