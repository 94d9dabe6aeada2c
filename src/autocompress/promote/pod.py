"""The pod of a model server, as JSON values. Pure.

It passes the Pod Security Standard ``restricted``. The init container alone has the credentials.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from autocompress.api.gpu_nodes import GPU_RESOURCE, Requirement, Use, node_terms
from autocompress.api.names import CACHE_DIR
from autocompress.promote.deployment import Deployment, Storage

Json = dict[str, JsonValue]

MODEL_DIR = "/model"
PORT = 8000
FETCH_CONTAINER = "fetch-model"
SERVER_CONTAINER = "server"

_SCRATCH = "/tmp"  # an emptyDir of the pod's own

_CONTAINER_SECURITY: Json = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
_POD_SECURITY: Json = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}

#: Loading may take this long (seconds between probes times tries) before the server is killed.
_STARTUP_PERIOD_SECONDS, _STARTUP_TRIES = 5, 240


def labels(deployment: Deployment) -> Json:
    """What selects the server's pods."""
    return {
        "app.kubernetes.io/name": deployment.name,
        "app.kubernetes.io/component": "model-server",
    }


def pod_spec(deployment: Deployment) -> Json:
    """A pod that fetches the model, checks it, and serves it."""
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": _POD_SECURITY,
        "initContainers": [fetch_container(deployment)],
        "containers": [_server_container(deployment)],
        "volumes": [{"name": "model", "emptyDir": {}}, *scratch_volumes()],
        **placement(deployment),
    }


def fetch_container(deployment: Deployment) -> Json:
    """Brings the model and checks it against its digest; a pod with another never starts."""
    storage = deployment.storage
    return {
        "name": FETCH_CONTAINER,
        "image": deployment.image,
        "command": ["autocompress", "fetch", storage.uri],
        "args": ["--digest", storage.digest, "--to", MODEL_DIR],
        "env": _env(deployment, [*_storage_env(storage), *_scratch_env()]),
        "securityContext": _CONTAINER_SECURITY,
        "volumeMounts": [{"name": "model", "mountPath": MODEL_DIR}, *scratch_mounts()],
    }


def _server_container(deployment: Deployment) -> Json:
    return {
        "name": SERVER_CONTAINER,
        "image": deployment.image,
        **command(deployment.command(MODEL_DIR, port=PORT)),
        "ports": [{"name": "http", "containerPort": PORT}],
        "resources": resources(deployment, deployment.limits),
        "volumeMounts": [
            {"name": "model", "mountPath": MODEL_DIR, "readOnly": True},
            *scratch_mounts(),
        ],
        **server_behaviour(deployment),
    }


def server_behaviour(deployment: Deployment) -> Json:
    """Environment, probes and security of a server's container, whoever brings its model."""
    health: Json = {"httpGet": {"path": "/health", "port": "http"}}
    return {
        "env": _env(deployment, _scratch_env()),
        "startupProbe": {
            **health,
            "periodSeconds": _STARTUP_PERIOD_SECONDS,
            "failureThreshold": _STARTUP_TRIES,
        },
        "readinessProbe": {**health, "periodSeconds": 5},
        "livenessProbe": {**health, "periodSeconds": 10, "timeoutSeconds": 5},
        "securityContext": {**_CONTAINER_SECURITY, **_POD_SECURITY},
    }


def command(words: tuple[str, ...]) -> Json:
    """Program and arguments; images disagree on entry points, so both are given."""
    return {"command": [words[0]], "args": list(words[1:])}


def resources(deployment: Deployment, limits: Mapping[str, str]) -> Json:
    """As of a container."""
    given: Json = {}
    if deployment.requests:
        given["requests"] = dict(deployment.requests)
    if limits:
        given["limits"] = dict(limits)
    measured = deployment.template.resources if deployment.template else None
    if measured and measured.claims:
        given["claims"] = [
            claim.model_dump(mode="json", exclude_defaults=True) for claim in measured.claims
        ]
    return given


def placement(deployment: Deployment) -> Json:
    """Where the pod may run: on what the model was measured on."""
    placed: Json = {}
    if deployment.template:
        given = deployment.template.model_dump(
            mode="json",
            exclude_defaults=True,
            include={
                "image_pull_secrets",
                "node_selector",
                "resource_claims",
                "runtime_class_name",
                "tolerations",
            },
        )
        placed.update(given)
    terms: list[JsonValue] = [
        {"matchExpressions": [_expression(part) for part in term]}
        for term in node_terms(deployment.accelerator, Use.MEASURE)
    ]
    if terms:
        tolerations = placed.setdefault("tolerations", [])
        assert isinstance(tolerations, list)
        tolerations.insert(0, {"key": GPU_RESOURCE, "operator": "Exists", "effect": "NoSchedule"})
        placed["affinity"] = {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
            }
        }
    return placed


def scratch_volumes() -> list[JsonValue]:
    """Where a container may write: cache, scratch, memory that an engine's processes share."""
    return [
        {"name": "cache", "emptyDir": {}},
        {"name": "scratch", "emptyDir": {}},
        {"name": "shared-memory", "emptyDir": {"medium": "Memory"}},
    ]


def scratch_mounts() -> list[JsonValue]:
    """Those volumes in a container."""
    return [
        {"name": "cache", "mountPath": CACHE_DIR},
        {"name": "scratch", "mountPath": _SCRATCH},
        {"name": "shared-memory", "mountPath": "/dev/shm"},
    ]


def _env(deployment: Deployment, ours: list[Json]) -> list[JsonValue]:
    """Environment variables; one that the job set for its pods replaces ours, as there."""
    template = deployment.template
    given: list[Json] = [
        variable.model_dump(mode="json", exclude_defaults=True)
        for variable in (template.env if template else ())
    ]
    return list({str(variable["name"]): variable for variable in (*ours, *given)}.values())


def _scratch_env() -> list[Json]:
    return [
        {"name": "AUTOCOMPRESS_CACHE", "value": CACHE_DIR},
        {"name": "HOME", "value": _SCRATCH},
        {"name": "TMPDIR", "value": _SCRATCH},
    ]


def _storage_env(storage: Storage) -> list[Json]:
    env: list[Json] = []
    if storage.endpoint:
        env.append({"name": "AWS_ENDPOINT_URL", "value": storage.endpoint})
    if storage.secret:
        for name, optional in (
            ("AWS_ACCESS_KEY_ID", False),
            ("AWS_SECRET_ACCESS_KEY", False),
            ("AWS_SESSION_TOKEN", True),
        ):
            key: Json = {"name": storage.secret, "key": name}
            if optional:
                key["optional"] = True
            env.append({"name": name, "valueFrom": {"secretKeyRef": key}})
    return env


def _expression(requirement: Requirement) -> Json:
    found: Json = {"key": requirement.key, "operator": requirement.operator.value}
    if requirement.values:
        found["values"] = list(requirement.values)
    return found
