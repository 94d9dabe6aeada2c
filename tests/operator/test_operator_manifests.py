"""Whole manifests, kept as snapshots; AUTOCOMPRESS_UPDATE_SNAPSHOTS=1 writes them anew."""

import json
import os
from pathlib import Path

import pytest
from operator_samples import GPU, SETTINGS, job_object, pretty, spec

from autocompress.api import names
from autocompress_operator.jobs import child_name, manifests
from autocompress_operator.pods import Task
from autocompress_operator.reading import read_job_object
from autocompress_operator.snapshot import ChildKind
from autocompress_operator.work import Work

SNAPSHOTS = Path(__file__).parent / "snapshots"
UPDATE = "AUTOCOMPRESS_UPDATE_SNAPSHOTS"


def task(work, spec_=None, *, attempt=1, settings=SETTINGS, **metadata):
    owner = read_job_object(job_object(spec_, **metadata))
    assert owner.job is not None, owner.fault
    return Task(
        owner=owner,
        job=owner.job,
        work=Work(work),
        attempt=attempt,
        input_digest="sha256:1234",
        settings=settings,
    )


def child(work, spec_=None, **fields):
    return manifests(task(work, spec_, **fields)).child


def pod_spec(work, spec_=None, **fields):
    return child(work, spec_, **fields)["spec"]["template"]["spec"]


TEMPLATE = {
    "name": "Recover",
    "image": "registry/own:2",
    "imagePullPolicy": "Always",
    "imagePullSecrets": [{"name": "registry"}],
    "resources": {"requests": {"cpu": "8"}, "limits": {"memory": "64Gi", "nvidia.com/gpu": 4}},
    "nodeSelector": {"pool": "train"},
    "tolerations": [{"key": "train", "operator": "Exists", "effect": "NoSchedule"}],
    "volumes": [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "big-tmp", "emptyDir": {"sizeLimit": "100Gi"}},
    ],
    "volumeMounts": [
        {"name": "data", "mountPath": "/data", "readOnly": True},
        {"name": "big-tmp", "mountPath": "/tmp"},
    ],
    "env": [
        {"name": "HOME", "value": "/data/home"},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}},
    ],
    "labels": {"team": "a"},
    "annotations": {"note": "x"},
    "priorityClassName": "high",
    "runtimeClassName": "nvidia",
}

CASES = {
    "cpu-preflight": task("preflight"),
    "cpu-profile": task("profile"),
    "gpu-profile-queued": task(
        "profile",
        spec(
            {**GPU, "minComputeMajor": 8},
            runPolicy={"backoffLimit": 4, "activeDeadlineSeconds": 7200},
        ),
        labels={names.KUEUE_LABELS[0]: "gpus", "app.kubernetes.io/instance": "argo"},
    ),
    "gpu-recover-template": task("recover", spec(GPU, stageTemplates=[TEMPLATE])),
    "indexed-recover": task("recover", spec(GPU, recovery={"nodes": 2})),
    "jobset-recover": task("recover", spec(GPU, recovery={"engine": "JobSet", "nodes": 2})),
    "trainjob-recover": task(
        "recover",
        spec(
            GPU,
            recovery={
                "engine": "TrainJob",
                "nodes": 2,
                "runtimeRef": {"name": "torch-distributed"},
            },
        ),
    ),
    "cleanup": task("cleanup"),
}


@pytest.mark.parametrize("name", CASES)
def test_manifests_are_as_kept(name):
    made = manifests(CASES[name])
    found = pretty([part for part in (made.service, made.child) if part is not None])
    file = SNAPSHOTS / f"{name}.json"
    if os.environ.get(UPDATE):
        file.write_text(found, encoding="utf-8")
    assert found == file.read_text(encoding="utf-8"), f"if this is meant: {UPDATE}=1 pytest"


def test_a_name_tells_input_and_attempt():
    name = child_name(task("profile"))
    assert name == child_name(task("profile"))
    assert name != child_name(task("profile", attempt=2))
    assert name.startswith("small-profile-")
    longest = child_name(task("preflight", name="a" * 30))
    # A JobSet's pods are named NAME-node-0-63-xxxxx, in at most 63 characters.
    assert len(longest) + len("-node-0-63-xxxxx") <= 63 + len("preflight") - len("recover")


def test_a_stage_finds_its_job_in_its_file():
    made = child("profile")
    notes = made["spec"]["template"]["metadata"]["annotations"]
    document = json.loads(notes[names.ANNOTATION_JOB])
    assert document["metadata"] == {"name": "small"}
    assert document["spec"] == spec()
    volume = made["spec"]["template"]["spec"]["volumes"][0]
    item = volume["projected"]["sources"][0]["downwardAPI"]["items"][0]
    assert item["path"] == "job.json"
    assert names.ANNOTATION_JOB in item["fieldRef"]["fieldPath"]


def test_labels_of_others_are_never_copied():
    labels = {"app.kubernetes.io/instance": "argo", names.KUEUE_LABELS[0]: "gpus"}
    made = child("profile", labels=labels)
    assert "app.kubernetes.io/instance" not in made["metadata"]["labels"]
    assert made["metadata"]["labels"][names.KUEUE_LABELS[0]] == "gpus"
    assert names.KUEUE_LABELS[0] not in made["spec"]["template"]["metadata"]["labels"]


def terms(found):
    affinity = found["affinity"]["nodeAffinity"]
    required = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
    return [
        {(e["key"].removeprefix("nvidia.com/"), e["operator"], *e.get("values", ()))
         for e in term["matchExpressions"]}
        for term in required["nodeSelectorTerms"]
    ]  # fmt: skip


def test_a_whole_gpu_is_asked_for_in_two_ways():
    found = terms(pod_spec("profile", spec(GPU)))
    base = {
        ("gpu.product", "In", "NVIDIA-L40S"),
        ("gpu.memory", "Gt", "45055"),
        ("gpu.sharing-strategy", "NotIn", "time-slicing", "mps"),
    }
    assert found == [
        base | {("mig.config", "DoesNotExist")},
        base
        | {
            ("mig.config", "In", "all-disabled"),
            ("mig.config.state", "NotIn", "pending", "rebooting", "failed"),
        },
    ]


def test_search_and_recovery_may_share_a_gpu_and_run_elsewhere():
    for work in ("search", "recover"):
        found = terms(pod_spec(work, spec(GPU)))
        assert not any("sharing" in key for term in found for key, *_ in term)
    placed = {"name": "Search", "nodeSelector": {"pool": "a"}}
    found = pod_spec("search", spec(GPU, stageTemplates=[placed]))
    assert found["nodeSelector"] == {"pool": "a"}
    assert "affinity" not in found
    placed = {"name": "Validate", "nodeSelector": {"pool": "a"}}
    assert "affinity" in pod_spec("validate", spec(GPU, stageTemplates=[placed]))


@pytest.mark.parametrize(
    ("work", "gpus"),
    [("preflight", None), ("profile", "2"), ("search", "1"), ("recover", "2"), ("validate", "2")],
)
def test_gpus_of_each_stage(work, gpus):
    limits = pod_spec(work, spec(GPU))["containers"][0]["resources"].get("limits", {})
    assert limits.get("nvidia.com/gpu") == gpus


def test_devices_that_the_template_names_replace_the_targets():
    claims = {
        "name": "Profile",
        "resources": {"claims": [{"name": "gpu"}]},
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
    }
    found = pod_spec("profile", spec(GPU, stageTemplates=[claims]))
    assert found["containers"][0]["resources"] == {"claims": [{"name": "gpu"}]}
    assert found["resourceClaims"] == [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]


@pytest.mark.parametrize(
    ("engine", "accelerator", "image"),
    [
        ("VLLM", {"kind": "CPU"}, SETTINGS.stage_image_cpu),
        ("VLLM", GPU, SETTINGS.stage_image_cuda),
        ("Transformers", GPU, SETTINGS.stage_image_cuda),
        ("TensorRTLLM", GPU, SETTINGS.stage_image_tensorrt_llm),
    ],
)
def test_the_image_follows_the_target(engine, accelerator, image):
    made = spec(accelerator)
    made["target"]["engine"] = {"name": engine, "version": "1.2.0"}
    assert pod_spec("profile", made)["containers"][0]["image"] == image
    assert pod_spec("preflight", made)["containers"][0]["image"] == SETTINGS.operator_image


@pytest.mark.parametrize("name", [name for name in CASES if name != "trainjob-recover"])
def test_pods_are_as_pod_security_restricted_wants_them(name):
    made = manifests(CASES[name])
    jobs = (
        [job["template"] for job in made.child["spec"]["replicatedJobs"]]
        if made.kind is ChildKind.JOB_SET
        else [made.child]
    )
    for job in jobs:
        pod = job["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        assert pod["restartPolicy"] == "Never"
        for part in pod["containers"]:
            security = part["securityContext"]
            assert security["allowPrivilegeEscalation"] is False
            assert security["readOnlyRootFilesystem"] is True
            assert security["capabilities"] == {"drop": ["ALL"]}


def test_a_cluster_that_chooses_users_itself_can():
    settings = SETTINGS.model_copy(update={"stage_user_id": None})
    assert "runAsUser" not in pod_spec("profile", settings=settings)["securityContext"]


def test_every_attempt_is_owned_and_cleanup_is_not():
    owner = child("profile")["metadata"]["ownerReferences"]
    assert owner == [
        {
            "apiVersion": "autocompress.dev/v1alpha1",
            "kind": "CompressionJob",
            "name": "small",
            "uid": "0a1b2c3d-0000-4000-8000-000000000001",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert "ownerReferences" not in child("cleanup")["metadata"]
