"""A piece of work as objects of the cluster: a Job, an Indexed Job, a JobSet or a TrainJob."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autocompress.api import names
from autocompress.api.v1alpha1 import API_VERSION, KIND
from autocompress.api.v1alpha1.recovery import RecoveryEngine
from autocompress.contract.digest import digest
from autocompress.contract.errors import ExitCode
from autocompress_operator import pods
from autocompress_operator.pods import Task
from autocompress_operator.snapshot import API_VERSIONS, ChildKind, JobObject, JsonObject
from autocompress_operator.work import Work

#: Another try would end in the same way.
FINAL_CODES = (
    ExitCode.BAD_SPEC,
    ExitCode.BAD_DATA,
    ExitCode.ACCESS_REFUSED,
    ExitCode.INFEASIBLE,
)

_HASH_CHARACTERS = 8
_CLEANUP_TRIES = 3
_CLEANUP_KEPT_SECONDS = 600
#: The replicated job of a JobSet, and by convention the trainer of a training runtime.
_NODE = "node"
_MANAGER = "autocompress.dev/operator"
_COMPLETION_INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
_TRAINER_GROUP = "trainer.kubeflow.org"

_KINDS: Mapping[RecoveryEngine, ChildKind] = {
    RecoveryEngine.JOB: ChildKind.JOB,
    RecoveryEngine.JOB_SET: ChildKind.JOB_SET,
    RecoveryEngine.TRAIN_JOB: ChildKind.TRAIN_JOB,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifests:
    """What to create for one attempt; ``service`` comes first where there is one."""

    kind: ChildKind
    child: JsonObject
    service: JsonObject | None = None


def child_kind(task: Task) -> ChildKind:
    """What runs a piece of work."""
    if task.work is not Work.RECOVER:
        return ChildKind.JOB
    return _KINDS[task.job.spec.recovery.engine]


def child_name(task: Task) -> str:
    """One name for one attempt at one input: creating it again finds what is there."""
    identity = digest((task.input_digest, task.attempt)).removeprefix("sha256:")
    return f"{task.owner.key.name}-{task.work.value}-{identity[:_HASH_CHARACTERS]}"


def manifests(task: Task) -> Manifests:
    """The objects of one attempt."""
    nodes = task.job.spec.recovery.nodes if task.work is Work.RECOVER else 1
    match child_kind(task):
        case ChildKind.JOB_SET:
            return Manifests(kind=ChildKind.JOB_SET, child=_job_set(task, nodes))
        case ChildKind.TRAIN_JOB:
            return Manifests(kind=ChildKind.TRAIN_JOB, child=_train_job(task, nodes))
        case ChildKind.JOB if nodes > 1:
            return Manifests(
                kind=ChildKind.JOB, child=_indexed_job(task, nodes), service=_service(task)
            )
        case ChildKind.JOB:
            return Manifests(kind=ChildKind.JOB, child=_job(task))


def _job(task: Task) -> JsonObject:
    policy = task.job.spec.run_policy
    spec: JsonObject = {
        "backoffLimit": policy.backoff_limit,
        **_run_once(1),
        "podFailurePolicy": {"rules": [*_IGNORED, _FAILED]},
        "template": _template(task),
    }
    if task.work is Work.CLEANUP:
        spec["backoffLimit"] = _CLEANUP_TRIES
        spec["activeDeadlineSeconds"] = task.settings.cleanup_seconds
        spec["ttlSecondsAfterFinished"] = _CLEANUP_KEPT_SECONDS
    elif policy.active_deadline_seconds is not None:
        spec["activeDeadlineSeconds"] = policy.active_deadline_seconds
    return {**_head(task, ChildKind.JOB), "spec": spec}


def _indexed_job(task: Task, nodes: int) -> JsonObject:
    policy = task.job.spec.run_policy
    name = child_name(task)
    env = _rendezvous(task, nodes, first=f"{name}-0.{name}")
    spec: JsonObject = {
        # The pods of a run fail together, and each of them counts.
        "backoffLimit": policy.backoff_limit * nodes,
        **_run_once(nodes),
        "completionMode": "Indexed",
        "podFailurePolicy": {"rules": [*_IGNORED, _FAILED]},
        "template": {
            "metadata": pods.pod_metadata(task),
            "spec": pods.pod_spec(task, env=env, subdomain=name),
        },
    }
    if policy.active_deadline_seconds is not None:
        spec["activeDeadlineSeconds"] = policy.active_deadline_seconds
    return {**_head(task, ChildKind.JOB), "spec": spec}


def _service(task: Task) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(task),
        "spec": {
            "clusterIP": "None",
            # The nodes must find each other before any of them is ready.
            "publishNotReadyAddresses": True,
            "selector": {"batch.kubernetes.io/job-name": child_name(task)},
            "ports": [{"name": "rendezvous", "port": names.RENDEZVOUS_PORT}],
        },
    }


def _job_set(task: Task, nodes: int) -> JsonObject:
    name = child_name(task)
    env = _rendezvous(task, nodes, first=f"{name}-{_NODE}-0-0.{name}")
    job: JsonObject = {
        # A JobSet restarts as a whole: one failed pod ends its Job at once.
        "backoffLimit": 0,
        **_run_once(nodes),
        "completionMode": "Indexed",
        "podFailurePolicy": {"rules": [{**rule, "action": "FailJob"} for rule in _IGNORED]},
        "template": {
            "metadata": pods.pod_metadata(task),
            "spec": pods.pod_spec(task, env=env),
        },
    }
    spec: JsonObject = {
        "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
        "failurePolicy": {
            "maxRestarts": task.job.spec.run_policy.backoff_limit,
            "rules": [
                {
                    "name": "disruption",
                    "action": "RestartJobSetAndIgnoreMaxRestarts",
                    "onJobFailureReasons": ["PodFailurePolicy"],
                }
            ],
        },
        "replicatedJobs": [
            {
                "name": _NODE,
                "replicas": 1,
                "template": {"metadata": {"labels": _labels(task)}, "spec": job},
            }
        ],
    }
    return {**_head(task, ChildKind.JOB_SET), "spec": spec}


def _train_job(task: Task, nodes: int) -> JsonObject:
    runtime = task.job.spec.recovery.runtime_ref
    if runtime is None:
        raise ValueError("a TrainJob without runtimeRef passed the schema")
    pod = pods.pod_spec(task)
    stage = pods.container(task)
    patched: JsonObject = {
        name: pod[name]
        for name in (
            "affinity",
            "imagePullSecrets",
            "nodeSelector",
            "securityContext",
            "serviceAccountName",
            "tolerations",
            "volumes",
        )
        if name in pod
    }
    patched["containers"] = [
        {
            "name": _NODE,
            "securityContext": stage["securityContext"],
            "volumeMounts": stage["volumeMounts"],
        }
    ]
    replicated: JsonObject = {
        "name": _NODE,
        "template": {
            "metadata": {"labels": _labels(task)},
            "spec": {"template": {"metadata": pods.pod_metadata(task), "spec": patched}},
        },
    }
    spec: JsonObject = {
        "runtimeRef": {
            "apiGroup": _TRAINER_GROUP,
            "kind": runtime.kind.value,
            "name": runtime.name,
        },
        "trainer": {
            "image": stage["image"],
            "command": stage["command"],
            "args": stage["args"],
            "env": stage["env"],
            "numNodes": nodes,
            "resourcesPerNode": stage["resources"],
        },
        "runtimePatches": [
            {
                "manager": _MANAGER,
                "trainingRuntimeSpec": {
                    "template": {"spec": {"replicatedJobs": [replicated]}},
                },
            }
        ],
    }
    deadline = task.job.spec.run_policy.active_deadline_seconds
    if deadline is not None:
        spec["activeDeadlineSeconds"] = deadline
    return {**_head(task, ChildKind.TRAIN_JOB), "spec": spec}


def _rendezvous(task: Task, nodes: int, *, first: str) -> tuple[JsonObject, ...]:
    """Variables under the names that torchrun reads, as a training runtime sets them too."""
    fixed = {
        "PET_NNODES": str(nodes),
        "PET_NPROC_PER_NODE": str(max(1, task.gpus)),
        "PET_MASTER_ADDR": first,
        "PET_MASTER_PORT": str(names.RENDEZVOUS_PORT),
    }
    variables: list[JsonObject] = [{"name": name, "value": text} for name, text in fixed.items()]
    rank: JsonObject = {
        "name": "PET_NODE_RANK",
        "valueFrom": {"fieldRef": {"fieldPath": _COMPLETION_INDEX}},
    }
    return (*variables, rank)


def _run_once(count: int) -> JsonObject:
    return {
        "completions": count,
        "parallelism": count,
        # A pod that is on its way out still holds its GPU.
        "podReplacementPolicy": "Failed",
    }


_IGNORED: tuple[JsonObject, ...] = (
    {
        "action": "Ignore",
        "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
    },
    {
        "action": "Ignore",
        "onExitCodes": {
            "containerName": names.STAGE_CONTAINER,
            "operator": "In",
            "values": [int(ExitCode.STOPPED)],
        },
    },
)

_FAILED: JsonObject = {
    "action": "FailJob",
    "onExitCodes": {
        "containerName": names.STAGE_CONTAINER,
        "operator": "In",
        "values": [int(code) for code in FINAL_CODES],
    },
}


def _template(task: Task) -> JsonObject:
    return {"metadata": pods.pod_metadata(task), "spec": pods.pod_spec(task)}


def _labels(task: Task) -> JsonObject:
    return dict(pods.labels(task).items())


def _head(task: Task, kind: ChildKind) -> JsonObject:
    metadata = _metadata(task)
    queue = task.owner.labels if task.work is not Work.CLEANUP else {}
    return {
        "apiVersion": API_VERSIONS[kind],
        "kind": kind.value,
        "metadata": {**metadata, "labels": {**_labels(task), **queue}},
    }


def _metadata(task: Task) -> JsonObject:
    found: JsonObject = {
        "name": child_name(task),
        "namespace": task.owner.key.namespace,
        "labels": _labels(task),
        "annotations": {
            names.ANNOTATION_INPUT_DIGEST: task.input_digest,
            names.ANNOTATION_ATTEMPT: str(task.attempt),
        },
    }
    # A cleanup outlives its job, and a foreground deletion would take it away at once.
    if task.work is not Work.CLEANUP:
        found["ownerReferences"] = [owner_reference(task.owner)]
    return found


def owner_reference(owner: JobObject) -> JsonObject:
    """By which the cluster removes children with their job."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": owner.key.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
