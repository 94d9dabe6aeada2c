"""The pod template of a piece of work."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import BaseModel, JsonValue

from autocompress.api import names
from autocompress.api.gpu_nodes import GPU_RESOURCE, Requirement, Use, node_terms
from autocompress.api.v1alpha1 import API_VERSION, KIND, CompressionJob
from autocompress.api.v1alpha1.running import StageTemplate
from autocompress.domain.deployment import Accelerator, AcceleratorKind, EngineName
from autocompress_operator.settings import Settings
from autocompress_operator.snapshot import JobObject, JsonObject
from autocompress_operator.work import STAGES, STEPS, Work

JOB_VOLUME = "autocompress-job"
_CACHE_VOLUME = "autocompress-cache"
_SCRATCH_VOLUME = "autocompress-scratch"
_SHARED_MEMORY_VOLUME = "autocompress-shm"
_JOB_FOLDER, _JOB_FILE_NAME = names.JOB_FILE.rsplit("/", 1)
_SCRATCH = "/tmp"  # an emptyDir of the pod's own
_SHARED_MEMORY = "/dev/shm"  # an emptyDir of the pod's own

#: Preflight and cleanup talk to a store; they load no model.
_SMALL: JsonObject = {
    "requests": {"cpu": "100m", "memory": "256Mi"},
    "limits": {"memory": "1Gi"},
}
_MEASURED = (Work.PROFILE, Work.VALIDATE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """One attempt at a piece of work of a job."""

    owner: JobObject
    job: CompressionJob
    work: Work
    attempt: int
    input_digest: str
    settings: Settings

    @property
    def template(self) -> StageTemplate | None:
        """What the job's author wants of these pods."""
        step = STEPS.get(self.work)
        return next((one for one in self.job.spec.stage_templates if one.name is step), None)

    @property
    def accelerator(self) -> Accelerator:
        """The device of the target."""
        return self.job.spec.target.accelerator.to_domain()

    @property
    def gpus(self) -> int:
        """GPUs of one pod: what the deployment has where it is measured, one to search on."""
        if self.work not in STAGES or self.accelerator.kind is not AcceleratorKind.GPU:
            return 0
        return 1 if self.work is Work.SEARCH else self.accelerator.count


def labels(task: Task) -> dict[str, str]:
    """The labels of every child and its pods; no other is ever copied."""
    return {
        names.LABEL_MANAGED_BY: names.MANAGER,
        names.LABEL_PART_OF: names.PART_OF,
        names.LABEL_JOB: task.owner.key.name,
        names.LABEL_STAGE: task.work.value,
    }


def pod_metadata(task: Task) -> JsonObject:
    """Labels and annotations, the job as the stage reads it among them."""
    template = task.template
    added = template.labels if template else {}
    notes = template.annotations if template else {}
    return {
        "labels": _json_map({**added, **labels(task)}),
        "annotations": _json_map(
            {
                **notes,
                names.ANNOTATION_ATTEMPT: str(task.attempt),
                names.ANNOTATION_JOB: job_document(task.owner),
            }
        ),
    }


def job_document(owner: JobObject) -> str:
    """The job as JSON, in one form: what a stage finds in its job file."""
    document: JsonObject = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": owner.key.name},
        "spec": owner.spec,
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def pod_spec(task: Task, *, env: Iterable[JsonObject] = (), subdomain: str = "") -> JsonObject:
    """A pod that Pod Security ``restricted`` lets in; ``env`` are variables beyond the usual."""
    template = task.template
    spec: JsonObject = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": task.settings.stage_stop_seconds,
        "securityContext": pod_security(task.settings),
        "containers": [container(task, env)],
        "volumes": volumes(task),
        **scheduling(task),
    }
    if subdomain:
        spec["subdomain"] = subdomain
    if task.job.spec.service_account_name:
        spec["serviceAccountName"] = task.job.spec.service_account_name
    if template is not None:
        if template.image_pull_secrets:
            spec["imagePullSecrets"] = [_plain(secret) for secret in template.image_pull_secrets]
        if template.resource_claims:
            spec["resourceClaims"] = [_plain(claim) for claim in template.resource_claims]
        if template.priority_class_name:
            spec["priorityClassName"] = template.priority_class_name
        if template.runtime_class_name:
            spec["runtimeClassName"] = template.runtime_class_name
    return spec


def container(task: Task, env: Iterable[JsonObject] = ()) -> JsonObject:
    """The container that does the work."""
    found: JsonObject = {
        "name": names.STAGE_CONTAINER,
        "image": image(task),
        "imagePullPolicy": image_pull_policy(task),
        "command": ["autocompress"],
        "args": arguments(task),
        "env": environment(task, env),
        "resources": resources(task),
        "securityContext": container_security(),
        "terminationMessagePath": names.TERMINATION_FILE,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": volume_mounts(task),
    }
    if task.work in STAGES:
        found["ports"] = [{"name": "progress", "containerPort": names.PROGRESS_PORT}]
    return found


def image(task: Task) -> str:
    """The template's image, or that for the target's engine; others run the operator's."""
    if task.template is not None and task.template.image:
        return task.template.image
    settings, target = task.settings, task.job.spec.target
    if task.work not in STAGES:
        return settings.operator_image
    if target.accelerator.kind is AcceleratorKind.CPU:
        return settings.stage_image_cpu
    if target.engine.name is EngineName.TENSORRT_LLM:
        return settings.stage_image_tensorrt_llm
    return settings.stage_image_cuda


def image_pull_policy(task: Task) -> str:
    """The template's, or that of the image's kind."""
    if task.template is not None and task.template.image_pull_policy:
        return task.template.image_pull_policy.value
    settings = task.settings
    if task.work in STAGES:
        return settings.stage_image_pull_policy.value
    return settings.operator_image_pull_policy.value


def arguments(task: Task) -> list[JsonValue]:
    """What comes after ``autocompress``."""
    summary: list[JsonValue] = ["--summary-file", names.TERMINATION_FILE]
    user = f"{task.owner.key.namespace}.{task.owner.key.name}.{task.owner.uid}"
    if task.work is Work.PREFLIGHT:
        return ["preflight", names.JOB_FILE, *summary]
    if task.work is Work.CLEANUP:
        return ["cleanup", names.JOB_FILE, "--user", user, *summary]
    port = str(names.PROGRESS_PORT)
    stage = STAGES[task.work].value
    return ["stage", stage, names.JOB_FILE, *summary, "--progress-port", port, "--user", user]


def environment(task: Task, more: Iterable[JsonObject]) -> list[JsonValue]:
    """Credentials by reference, folders, and the template's variables, which win."""
    variables: dict[str, JsonObject] = {}
    artifacts = task.job.spec.artifacts
    if artifacts is not None and artifacts.credentials_secret_ref is not None:
        secret = artifacts.credentials_secret_ref.name
        for name, optional in (
            ("AWS_ACCESS_KEY_ID", False),
            ("AWS_SECRET_ACCESS_KEY", False),
            ("AWS_SESSION_TOKEN", True),
        ):
            ref: JsonObject = {"name": secret, "key": name}
            if optional:
                ref["optional"] = True
            variables[name] = {"name": name, "valueFrom": {"secretKeyRef": ref}}
    for name, folder in (
        ("AUTOCOMPRESS_CACHE", names.CACHE_DIR),
        ("HOME", _SCRATCH),
        ("TMPDIR", _SCRATCH),
    ):
        variables[name] = {"name": name, "value": folder}
    for given in (*more, *map(_plain, task.template.env if task.template else ())):
        variables[str(given["name"])] = given
    return list(variables.values())


def resources(task: Task) -> JsonObject:
    """The template's, and the GPUs of the target where it names no devices itself."""
    given = task.template.resources if task.template else None
    if given is None:
        found: JsonObject = {} if task.work in STAGES else dict(_SMALL)
        devices_named = False
    else:
        found = _plain(given)
        named = (*given.limits, *given.requests)
        devices_named = bool(given.claims) or any(n.startswith("nvidia.com/") for n in named)
    if task.gpus and not devices_named:
        limits = found.get("limits")
        kept = limits if isinstance(limits, dict) else {}
        found["limits"] = {**kept, GPU_RESOURCE: str(task.gpus)}
    return found


def volumes(task: Task) -> list[JsonValue]:
    """The job file, scratch space, shared memory for GPUs, and the template's volumes."""
    mounted = _template_paths(task)
    job_file: JsonObject = {
        "path": _JOB_FILE_NAME,
        "fieldRef": {"fieldPath": f"metadata.annotations['{names.ANNOTATION_JOB}']"},
    }
    found: list[JsonValue] = [
        {"name": JOB_VOLUME, "projected": {"sources": [{"downwardAPI": {"items": [job_file]}}]}},
        {"name": _CACHE_VOLUME, "emptyDir": {}},
    ]
    if _SCRATCH not in mounted:
        found.append({"name": _SCRATCH_VOLUME, "emptyDir": {}})
    if task.work in STAGES and _SHARED_MEMORY not in mounted:
        # Processes of an engine, and of a collective, exchange tensors here.
        found.append({"name": _SHARED_MEMORY_VOLUME, "emptyDir": {"medium": "Memory"}})
    found.extend(_plain(volume) for volume in (task.template.volumes if task.template else ()))
    return found


def volume_mounts(task: Task) -> list[JsonValue]:
    """Where ``volumes`` are."""
    mounted = _template_paths(task)
    found: list[JsonValue] = [
        {"name": JOB_VOLUME, "mountPath": _JOB_FOLDER, "readOnly": True},
        {"name": _CACHE_VOLUME, "mountPath": names.CACHE_DIR},
    ]
    if _SCRATCH not in mounted:
        found.append({"name": _SCRATCH_VOLUME, "mountPath": _SCRATCH})
    if task.work in STAGES and _SHARED_MEMORY not in mounted:
        found.append({"name": _SHARED_MEMORY_VOLUME, "mountPath": _SHARED_MEMORY})
    found.extend(_plain(mount) for mount in (task.template.volume_mounts if task.template else ()))
    return found


def _template_paths(task: Task) -> frozenset[str]:
    mounts = task.template.volume_mounts if task.template else ()
    return frozenset(mount.mount_path for mount in mounts)


def scheduling(task: Task) -> JsonObject:
    """Where the pod may run: the target's nodes, and what the template says."""
    template = task.template
    found: JsonObject = {}
    if template is not None and template.node_selector:
        found["nodeSelector"] = _json_map(template.node_selector)
    measured = task.work in _MEASURED
    # Search and recovery may run on other devices than the target's: a template places them.
    placed = template is not None and bool(template.node_selector) and not measured
    if task.gpus and not placed:
        terms = node_terms(task.accelerator, Use.MEASURE if measured else Use.COMPUTE)
        selector: JsonObject = {
            "nodeSelectorTerms": [
                {"matchExpressions": [_expression(part) for part in term]} for term in terms
            ]
        }
        found["affinity"] = {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}
        }
    tolerations: list[JsonValue] = [_plain(t) for t in (template.tolerations if template else ())]
    if task.gpus:
        tolerations.insert(0, {"key": GPU_RESOURCE, "operator": "Exists", "effect": "NoSchedule"})
    if tolerations:
        found["tolerations"] = tolerations
    return found


def _expression(requirement: Requirement) -> JsonObject:
    found: JsonObject = {"key": requirement.key, "operator": requirement.operator.value}
    if requirement.values:
        found["values"] = list(requirement.values)
    return found


def pod_security(settings: Settings) -> JsonObject:
    """A pod's security context."""
    found: JsonObject = {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    if settings.stage_user_id is not None:
        for name in ("runAsUser", "runAsGroup", "fsGroup"):
            found[name] = settings.stage_user_id
    return found


def container_security() -> JsonObject:
    """A container's security context."""
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def _plain(model: BaseModel) -> JsonObject:
    found: JsonObject = model.model_dump(mode="json", exclude_defaults=True)
    return found


def _json_map(values: dict[str, str]) -> JsonObject:
    return dict(values.items())
