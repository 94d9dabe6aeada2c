"""What is written for each way to serve: the measured engine, the model by digest, no secrets."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from autocompress.contract.errors import SpecError
from autocompress.domain.architecture import Architecture, Attention, Mlp
from autocompress.engines.vllm.arguments import completed, engine_arguments, kv_cache_bytes
from autocompress.promote.deployment import Deployment, Overrides, plan_deployment
from autocompress.promote.files import render
from autocompress.promote.job_object import JobObject, read_object
from autocompress.promote.manifests import Format, manifests
from autocompress.promote.verdict import prove
from job_objects import (
    CPU_TARGET,
    DIGEST,
    GPU_TARGET,
    IMAGE,
    MODEL_URI,
    TENSORRT_TARGET,
    as_text,
    changed,
    finished,
)

MODEL = Architecture(
    hidden_size=64,
    vocab_size=256,
    tied_embeddings=True,
    blocks=(Attention(query_heads=4, kv_heads=2, head_dim=32), Mlp(intermediate_size=128)),
)


def read(found: Mapping[str, object]) -> JobObject:
    return read_object(as_text(dict(found)), origin="object.json")


def planned(found: Mapping[str, object], **overrides: str) -> Deployment:
    job = read(found)
    return plan_deployment(job, prove(job), Overrides(**overrides))


def written(found: Mapping[str, object], format_: Format, **overrides: str) -> dict[str, object]:
    """Documents by kind, as whoever applies the files reads them."""
    files = manifests(planned(found, **overrides), format_)
    texts = [render(documents, job="team/smollm2") for documents in files.values()]
    return {document["kind"]: document for text in texts for document in yaml.safe_load_all(text)}


def containers(deployment: dict[str, object]) -> dict[str, dict[str, object]]:
    pod = deployment["spec"]["template"]["spec"]
    return {each["name"]: each for each in (*pod["initContainers"], *pod["containers"])}


def test_the_served_engine_has_the_flags_that_were_measured() -> None:
    """Through `autocompress serve`, which adds what only the model itself tells."""
    server = containers(written(finished(), Format.VLLM)["Deployment"])["server"]
    assert server["command"] == ["autocompress"]
    verb, folder, *flags = server["args"]
    assert (verb, folder) == ("serve", "/model")
    ours = ["--host", "0.0.0.0", "--port", "8000", "--served-model-name", "smollm2"]
    assert flags[: len(ours)] == ours
    job = read(finished()).job.to_domain()
    kv_bytes = kv_cache_bytes(MODEL, job.target, job.workload)
    measured = engine_arguments(job.target, job.workload, kv_bytes)
    served = completed(flags[len(ours) :], MODEL)
    assert sorted(served) == sorted(measured)
    assert served[-1] == "--max-num-batched-tokens=2048"


def test_the_model_is_fetched_by_digest_and_only_there_with_credentials() -> None:
    found = containers(written(finished(), Format.VLLM)["Deployment"])
    fetch, server = found["fetch-model"], found["server"]
    assert fetch["command"] == ["autocompress", "fetch", MODEL_URI]
    assert fetch["args"] == ["--digest", DIGEST, "--to", "/model"]
    env = {each["name"]: each for each in fetch["env"]}
    assert env["AWS_ENDPOINT_URL"]["value"] == "http://minio.minio:9000"
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        assert env[key]["valueFrom"] == {"secretKeyRef": {"name": "s3", "key": key}}
    assert not [each for each in server["env"] if each["name"].startswith("AWS_")]
    assert {"name": "model", "mountPath": "/model", "readOnly": True} in server["volumeMounts"]
    assert fetch["image"] == server["image"] == IMAGE


def test_annotations_carry_job_digest_and_figures() -> None:
    found = written(finished(), Format.VLLM)
    for metadata in (
        found["Service"]["metadata"],
        found["Deployment"]["metadata"],
        found["Deployment"]["spec"]["template"]["metadata"],
    ):
        annotations = metadata["annotations"]
        assert annotations["autocompress.dev/promoted-from"] == "team/smollm2"
        assert annotations["autocompress.dev/model-digest"] == DIGEST
        budget = json.loads(annotations["autocompress.dev/budget"])
        assert budget[0] == {
            "name": "TimePerOutputTokenP50",
            "unit": "ms",
            "limit": "72.8",
            "measured": "65.8",
            "utilizationPercent": 90,
        }
        quality = json.loads(annotations["autocompress.dev/quality"])
        assert quality["retentionPercent"] == "91.4"


def test_a_serving_pod_is_never_taken_for_a_stage() -> None:
    labels = written(finished(), Format.VLLM)["Deployment"]["spec"]["template"]["metadata"]
    assert not [key for key in labels["labels"] if key.startswith("autocompress.dev/")]
    assert "app.kubernetes.io/managed-by" not in labels["labels"]


def test_a_cpu_server_asks_for_the_measured_memory_and_the_front_end() -> None:
    server = containers(written(finished(), Format.VLLM)["Deployment"])["server"]
    # 942669824 bytes measured, and 2 GiB.
    assert server["resources"] == {"requests": {"cpu": "2", "memory": "2947Mi"}}


def test_what_the_measuring_pods_got_the_server_gets() -> None:
    template = {
        "name": "Validate",
        "image": "ignored:the-status-says-what-ran",
        "resources": {"requests": {"cpu": 8}, "limits": {"memory": "32Gi", "nvidia.com/gpu": 2}},
        "nodeSelector": {"pool": "inference"},
        "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "imagePullSecrets": [{"name": "registry"}],
        "runtimeClassName": "nvidia",
        "env": [{"name": "VLLM_USE_X", "value": "1"}, {"name": "TMPDIR", "value": "/big"}],
    }
    found = changed(finished(GPU_TARGET), spec__stageTemplates=[template])
    deployment = written(found, Format.VLLM)["Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    server = containers(deployment)["server"]
    assert pod["nodeSelector"] == {"pool": "inference"}
    assert [each["key"] for each in pod["tolerations"]] == ["nvidia.com/gpu", "gpu"]
    assert pod["tolerations"][1] == template["tolerations"][0]
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert pod["runtimeClassName"] == "nvidia"
    assert server["image"] == IMAGE
    assert server["resources"] == {
        "requests": {"cpu": "8"},
        "limits": {"memory": "32Gi", "nvidia.com/gpu": "2"},
    }
    env = [(each["name"], each["value"]) for each in server["env"]]
    assert ("VLLM_USE_X", "1") in env
    assert [value for name, value in env if name == "TMPDIR"] == ["/big"]


def test_a_gpu_server_runs_on_whole_gpus_of_the_measured_product() -> None:
    pod = written(finished(GPU_TARGET), Format.VLLM)["Deployment"]["spec"]["template"]["spec"]
    node_affinity = pod["affinity"]["nodeAffinity"]
    terms = node_affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert len(terms) == 2
    for term in terms:
        rules = {
            (each["key"], each["operator"]): each.get("values") for each in term["matchExpressions"]
        }
        assert rules["nvidia.com/gpu.product", "In"] == ["NVIDIA-L40S"]
        assert rules["nvidia.com/gpu.sharing-strategy", "NotIn"] == ["time-slicing", "mps"]
    assert pod["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "2"}


def test_a_server_asks_for_the_devices_that_the_job_names() -> None:
    accelerator = {
        **{"kind": "GPU", "product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"},
        **{"minMemory": "9Gi", "minComputeMajor": 8},
    }
    engine = {"name": "VLLM", "version": "0.32.0"}
    resources = {"limits": {"nvidia.com/mig-1g.10gb": 1}}
    found = changed(
        finished({**GPU_TARGET, "accelerator": accelerator, "engine": engine}),
        spec__stageTemplates=[{"name": "Validate", "resources": resources}],
    )
    pod = written(found, Format.VLLM)["Deployment"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["resources"]["limits"] == {"nvidia.com/mig-1g.10gb": "1"}
    node_affinity = pod["affinity"]["nodeAffinity"]
    (term,) = node_affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    rules = {(each["key"], each["operator"]): each["values"] for each in term["matchExpressions"]}
    assert rules["nvidia.com/gpu.memory", "Gt"] == ["9215"]
    assert rules["nvidia.com/gpu.compute.major", "Gt"] == ["7"]


def test_tensorrt_llm_is_served_by_its_own_server() -> None:
    found = containers(written(finished(TENSORRT_TARGET), Format.TENSORRT_LLM)["Deployment"])
    assert found["server"]["command"] == ["trtllm-serve"]
    assert found["server"]["args"] == [
        *("/model", "--host", "0.0.0.0", "--port", "8000", "--backend", "pytorch"),
        *("--max_seq_len", "1280", "--max_batch_size", "16", "--tp_size", "2"),
    ]
    assert found["fetch-model"]["args"][:2] == ["--digest", DIGEST]


@pytest.mark.parametrize(
    ("target", "format_", "says"),
    [
        (TENSORRT_TARGET, Format.VLLM, "measured with TensorRTLLM; give --format tensorrt-llm"),
        (CPU_TARGET, Format.TENSORRT_LLM, "measured with VLLM; give --format vllm"),
        (
            {**CPU_TARGET, "engine": {"name": "Transformers", "version": "5.19.0"}},
            Format.KSERVE,
            "Transformers: is no server",
        ),
    ],
)
def test_another_engine_than_the_measured_one_is_refused(target, format_, says) -> None:
    with pytest.raises(SpecError, match=says):
        written(finished(target), format_)


def test_kserve_has_the_digest_in_its_path_and_checks_it_before_it_serves() -> None:
    found = written(finished(), Format.KSERVE)
    service, runtime = found["InferenceService"], found["ServingRuntime"]
    model = service["spec"]["predictor"]["model"]
    assert model["storageUri"] == MODEL_URI
    assert DIGEST.removeprefix("sha256:") in model["storageUri"]
    assert model["runtime"] == runtime["metadata"]["name"] == "smollm2"
    assert model["modelFormat"]["name"] in {
        each["name"] for each in runtime["spec"]["supportedModelFormats"]
    }
    assert model["command"] == ["autocompress", "verify", "/mnt/models"]
    digest_flag, digest, dashes, *server = model["args"]
    assert (digest_flag, digest, dashes) == ("--digest", DIGEST, "--")
    vllm = containers(written(finished(), Format.VLLM)["Deployment"])["server"]
    same = [*vllm["command"], *vllm["args"]]
    assert server == [{"/model": "/mnt/models", "8000": "8080"}.get(w, w) for w in same]
    # Without limits of its own, KServe gives a model 1 CPU and 2Gi.
    assert model["resources"]["limits"] == {"cpu": "2", "memory": "2947Mi"}
    annotations = service["metadata"]["annotations"]
    assert annotations["serving.kserve.io/storageSecretName"] == "s3"
    assert model["image"] == IMAGE


def test_kserve_asks_for_the_memory_that_no_measurement_tells() -> None:
    with pytest.raises(SpecError, match="give --memory"):
        written(finished(GPU_TARGET), Format.KSERVE)
    found = written(finished(GPU_TARGET), Format.KSERVE, memory="64Gi", cpu="8")
    model = found["InferenceService"]["spec"]["predictor"]["model"]
    assert model["resources"] == {
        "requests": {"cpu": "8", "memory": "64Gi"},
        "limits": {"nvidia.com/gpu": "2", "cpu": "8", "memory": "64Gi"},
    }


def test_kserve_serves_tensorrt_llm_too() -> None:
    found = written(finished(TENSORRT_TARGET), Format.KSERVE, memory="64Gi")
    model = found["InferenceService"]["spec"]["predictor"]["model"]
    assert model["args"][3:5] == ["trtllm-serve", "/mnt/models"]


@pytest.mark.parametrize("image", [None, "sha256:" + "ef" * 32])
def test_an_image_that_cannot_be_named_is_asked_for(image) -> None:
    found = changed(finished(), status__resolved__images={"Validate": image} if image else {})
    with pytest.raises(SpecError, match="give it with --image"):
        planned(found)
    assert planned(found, image="registry.example/stage:1").image == "registry.example/stage:1"


@pytest.mark.parametrize("name", ["Smollm", "-a", "a" * 51, "a_b"])
def test_a_name_that_no_service_can_have_is_refused(name) -> None:
    with pytest.raises(SpecError, match="--name"):
        planned(finished(), name=name)


def test_nothing_but_names_of_secrets_is_written() -> None:
    for format_ in (Format.KSERVE, Format.VLLM, Format.KUSTOMIZE):
        for document in written(finished(), format_).values():
            assert document["kind"] != "Secret"


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl")
def test_a_kustomize_patch_pins_what_somebody_made_of_the_server(tmp_path: Path) -> None:
    """A later model of another job, patched into a Deployment that was changed by hand."""
    before = written(finished(), Format.VLLM, name="chat")
    before["Deployment"]["spec"]["replicas"] = 3
    before["Deployment"]["spec"]["template"]["spec"]["containers"].append(
        {"name": "sidecar", "image": "proxy:1"}
    )
    newer = json.loads(as_text(finished()).replace("ab12", "cd34"))
    files = manifests(planned(newer, name="chat"), Format.KUSTOMIZE)
    assert set(files) == {"chat-deployment-patch.yaml", "chat-inferenceservice-patch.yaml"}
    for name, documents in files.items():
        (tmp_path / name).write_text(render(documents, job="team/smollm2"))
    (tmp_path / "server.yaml").write_text(yaml.safe_dump_all(before.values()))
    (tmp_path / "kustomization.yaml").write_text(
        yaml.safe_dump(
            {"resources": ["server.yaml"], "patches": [{"path": "chat-deployment-patch.yaml"}]}
        )
    )
    built = subprocess.run(
        ["kubectl", "kustomize", str(tmp_path)], capture_output=True, text=True, check=True
    ).stdout
    documents = {each["kind"]: each for each in yaml.safe_load_all(built)}
    after = documents["Deployment"]
    assert "ab12" not in json.dumps(after)
    assert after["spec"]["replicas"] == 3
    found = containers(after)
    assert set(found) == {"fetch-model", "server", "sidecar"}
    assert found["fetch-model"]["args"][1] == DIGEST.replace("ab12", "cd34")
    assert found["fetch-model"]["env"] == containers(before["Deployment"])["fetch-model"]["env"]
    assert found["server"]["args"] == containers(before["Deployment"])["server"]["args"]
    (tmp_path / "server.yaml").write_text(yaml.safe_dump(before["Service"]))
    unmatched = subprocess.run(
        ["kubectl", "kustomize", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert unmatched.returncode != 0  # a patch without its target is told, not skipped
