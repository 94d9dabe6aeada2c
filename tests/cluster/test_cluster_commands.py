"""`promote`, `jobs` and `logs` against a real API server, and manifests that it accepts."""

from __future__ import annotations

import json
import os
import queue
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import yaml
from clusters import Refused, job_path, make_namespace, wait_for

import job_objects

#: A machine that does other work too takes long to start a program.
_PATIENCE_SECONDS = 240
AGE = re.compile(r"([0-9]+[smhd])+")
KSERVE_CRDS = "AUTOCOMPRESS_KSERVE_CRDS"
SERVED = [
    (job_objects.CPU_TARGET, "vllm"),
    (job_objects.GPU_TARGET, "vllm"),
    (job_objects.TENSORRT_TARGET, "tensorrt-llm"),
]
PLURALS = {
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "Service": "/api/v1/namespaces/{}/services",
    "ServingRuntime": "/apis/serving.kserve.io/v1alpha1/namespaces/{}/servingruntimes",
    "InferenceService": "/apis/serving.kserve.io/v1beta1/namespaces/{}/inferenceservices",
}


@pytest.fixture
def autocompress(api_cluster):
    """The command line on that cluster."""
    return lambda *arguments: command_line(api_cluster.kubeconfig, *arguments)


def command_line(kubeconfig, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "autocompress", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        timeout=_PATIENCE_SECONDS,
    )


def create_job(api, namespace, found, name="smollm2"):
    """The object in the cluster, its status as the operator would have written it."""
    body = {
        "apiVersion": found["apiVersion"],
        "kind": found["kind"],
        "metadata": {"name": name},
        "spec": found["spec"],
    }
    created = api.create(job_path(namespace), body)
    if "status" in found:
        api.merge(job_path(namespace, name, "status"), {"status": found["status"]})
    return created


def documents(folder):
    return [each for path in sorted(folder.iterdir()) for each in yaml.safe_load_all(path.open())]


def admit_pods(api, namespace):
    """Make the account that a controller would, which is not there at this level."""
    try:
        accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        api.create(accounts, {"metadata": {"name": "default"}})
    except Refused as refused:
        assert refused.code == 409


EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "cluster").glob("*.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_examples_are_accepted(api, namespace, path):
    job = yaml.safe_load(path.read_text())
    accepted = api.create(job_path(namespace), job, dryRun="All")
    assert accepted["metadata"]["name"] == job["metadata"]["name"]


def test_promote_reads_the_cluster_as_it_reads_an_export(api, namespace, autocompress, tmp_path):
    create_job(api, namespace, job_objects.finished())
    ran = autocompress(
        *("promote", "compressionjob/smollm2", "-n", namespace),
        *("--to", tmp_path / "a", "--format", "vllm"),
    )
    assert ran.returncode == 0, ran.stderr
    export = tmp_path / "object.yaml"
    export.write_text(yaml.safe_dump(api.get(job_path(namespace, "smollm2"))))
    again = autocompress(
        "promote", "--from-file", export, "--to", tmp_path / "b", "--format", "vllm"
    )
    assert again.returncode == 0, again.stderr
    name = "smollm2.yaml"
    assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert job_objects.DIGEST in (tmp_path / "a" / name).read_text()


def test_promote_refuses_what_the_cluster_says_is_not_there(api, namespace, autocompress, tmp_path):
    promote = ("promote", "cj/smollm2", "-n", namespace, "--to", tmp_path, "--format", "vllm")
    missing = autocompress(*promote)
    assert missing.returncode == 65
    assert f"there is no compressionjob smollm2 in namespace {namespace}" in missing.stderr
    create_job(api, namespace, job_objects.job_object())
    early = autocompress(*promote)
    assert early.returncode == 75
    assert "no operator has looked at" in early.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("served", SERVED)
def test_manifests_and_their_pods_are_accepted(api, namespace, autocompress, tmp_path, served):
    target, format_ = served
    export = tmp_path / "object.json"
    export.write_text(job_objects.as_text(job_objects.finished(target)))
    to = tmp_path / "deploy"
    ran = autocompress("promote", "--from-file", export, "--to", to, "--format", format_)
    assert ran.returncode == 0, ran.stderr
    admit_pods(api, namespace)
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    api.merge(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": labels}})
    for document in documents(to):
        path = PLURALS[document["kind"]].format(namespace)
        accepted = api.create(path, document, dryRun="All")
        assert accepted["metadata"]["name"] == "smollm2"
        if document["kind"] == "Deployment":
            pod = document["spec"]["template"]
            api.create(
                f"/api/v1/namespaces/{namespace}/pods",
                {"metadata": {**pod["metadata"], "name": "smollm2"}, "spec": pod["spec"]},
                dryRun="All",
            )


@pytest.mark.skipif(
    KSERVE_CRDS not in os.environ,
    reason=f"set {KSERVE_CRDS} to a folder with KServe's CRDs (config/crd/full of its repository)",
)
@pytest.mark.parametrize("target", [job_objects.CPU_TARGET, job_objects.TENSORRT_TARGET])
def test_kserve_manifests_fit_its_own_schema(api, namespace, autocompress, tmp_path, target):
    for kind in ("servingruntimes", "inferenceservices"):
        file = Path(os.environ[KSERVE_CRDS]) / f"serving.kserve.io_{kind}.yaml"
        crd = yaml.safe_load(file.read_text())
        name = crd["metadata"]["name"]
        api.apply(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}", crd)
    export = tmp_path / "object.json"
    export.write_text(job_objects.as_text(job_objects.finished(target)))
    ran = autocompress(
        *("promote", "--from-file", export, "--to", tmp_path / "deploy"),
        *("--format", "kserve", "--memory", "64Gi"),
    )
    assert ran.returncode == 0, ran.stderr
    found = {each["kind"]: each for each in documents(tmp_path / "deploy")}
    assert set(found) == {"ServingRuntime", "InferenceService"}
    for kind, document in found.items():
        path = PLURALS[kind].format(namespace)
        wait_for(lambda path=path: _is_served(api, path), f"{kind} being served")
        accepted = api.create(path, document, dryRun="All")
        assert accepted["spec"] == document["spec"]  # nothing pruned, nothing defaulted


def _is_served(api, path):
    try:
        return api.get(path)
    except Refused as refused:
        assert refused.code in (404, 429)
        return None


def rows(text):
    return [line.split() for line in text.splitlines()]


def without_ages(text):
    """Those of two programs differ by seconds."""
    return [["AGE" if AGE.fullmatch(cell) else cell for cell in row] for row in rows(text)]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl")
def test_jobs_shows_what_kubectl_shows(api_cluster, api, namespace, autocompress):
    create_job(api, namespace, job_objects.finished(), "done")
    create_job(api, namespace, job_objects.job_object(), "fresh")
    for ours, theirs in (((), ()), (("--wide",), ("-o", "wide"))):
        shown = autocompress("jobs", "-n", namespace, *ours)
        assert shown.returncode == 0, shown.stderr
        kubectl = subprocess.run(
            ["kubectl", "get", "compressionjobs", "-n", namespace, *theirs],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "KUBECONFIG": str(api_cluster.kubeconfig)},
        )
        assert without_ages(shown.stdout) == without_ages(kubectl.stdout)
    everywhere = autocompress("jobs", "-A")
    assert rows(everywhere.stdout)[0][:2] == ["NAMESPACE", "NAME"]
    assert [namespace, "done"] in [row[:2] for row in rows(everywhere.stdout)]


def test_jobs_as_json_is_the_list(api, namespace, autocompress):
    create_job(api, namespace, job_objects.finished())
    ran = autocompress("jobs", "-n", namespace, "--json")
    found = json.loads(ran.stdout)
    assert [item["metadata"]["name"] for item in found["items"]] == ["smollm2"]
    assert found["items"][0]["status"]["result"]["digest"] == job_objects.DIGEST


def test_no_jobs_is_said(namespace, autocompress):
    ran = autocompress("jobs", "-n", namespace)
    assert (ran.returncode, ran.stdout) == (0, "")
    assert f"no CompressionJob in namespace {namespace}" in ran.stderr


@pytest.fixture
def watching(api_cluster):
    """Starts the command line and gives a function that waits for a line."""
    started = []

    def start(*arguments):
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", "autocompress", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "KUBECONFIG": str(api_cluster.kubeconfig)},
        )
        started.append(process)
        lines = queue.Queue()
        threading.Thread(
            target=lambda: [lines.put(line) for line in process.stdout], daemon=True
        ).start()

        def wait(*words):
            seen = []
            while True:
                try:
                    seen.append(lines.get(timeout=_PATIENCE_SECONDS))
                except queue.Empty:
                    pytest.fail(f"no line with {words}; seen: {seen}")
                if all(word in seen[-1] for word in words):
                    return seen[-1]

        return wait

    yield start
    for process in started:
        process.terminate()
        process.wait(timeout=30)
        process.stdout.close()
        process.stderr.close()


def test_jobs_goes_on_with_every_change(api, namespace, watching):
    create_job(api, namespace, job_objects.job_object(), "first")
    wait = watching("jobs", "-n", namespace, "-w")
    wait("NAME", "READY", "AGE")
    wait("first")
    create_job(api, namespace, job_objects.finished(), "second")
    assert "Validate" in wait("second", "Succeeded")
    api.delete(job_path(namespace, "first"))
    wait("first", "(deleted)")


def test_jobs_as_json_goes_on_with_every_change(api, namespace, watching):
    wait = watching("jobs", "-n", namespace, "-w", "--json")
    create_job(api, namespace, job_objects.job_object(), "second")
    wait('"ADDED"')
    status = {"status": job_objects.finished()["status"]}
    api.merge(job_path(namespace, "second", "status"), status)
    event = json.loads(wait('"MODIFIED"', job_objects.DIGEST))
    assert event["object"]["metadata"]["name"] == "second"
    api.delete(job_path(namespace, "second"))
    wait('"DELETED"')


def stage_pod(name, stage, image="localhost/none:1", command=("true",)):
    return {
        "metadata": {
            "name": name,
            "labels": {"autocompress.dev/job": "smollm2", "autocompress.dev/stage": stage},
        },
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "containers": [
                {
                    "name": "stage",
                    "image": image,
                    "imagePullPolicy": "IfNotPresent",
                    "command": list(command),
                }
            ],
        },
    }


def test_logs_says_why_there_are_none(api, namespace, autocompress):
    none = autocompress("logs", "smollm2", "-n", namespace)
    assert none.returncode == 65
    assert "no pod of smollm2" in none.stderr
    admit_pods(api, namespace)
    api.create(f"/api/v1/namespaces/{namespace}/pods", stage_pod("a", "search"))
    waiting = autocompress("logs", "smollm2", "-n", namespace, "--stage", "search")
    assert waiting.returncode == 75
    assert "pod a has not started" in waiting.stderr
    other = autocompress("logs", "smollm2", "-n", namespace, "--stage", "recover")
    assert other.returncode == 65
    assert "no pod of stage recover of smollm2" in other.stderr


@pytest.mark.slow
def test_logs_of_the_newest_pod_as_it_is_written(node_cluster):
    """On a node that runs pods; with a kubeconfig alone, any image with a shell would do."""
    if node_cluster.folder is None:
        pytest.skip("loads its image by the programs of a cluster of its own")
    node_cluster.image("minio")
    api = node_cluster.api
    namespace = make_namespace(api)
    pods = f"/api/v1/namespaces/{namespace}/pods"
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    wait_for(lambda: _is_served(api, accounts), "the default service account")
    image = "localhost/minio:1"
    api.create(pods, stage_pod("old", "profile", image, ("/minio", "--help")))
    wait_for(
        lambda: api.get(f"{pods}/old")["status"]["phase"] in ("Succeeded", "Failed"), "its end"
    )
    api.create(pods, stage_pod("new", "search", image, ("/minio", "--version")))
    followed = command_line(node_cluster.kubeconfig, "logs", "smollm2", "-n", namespace, "-f")
    assert followed.returncode == 0, followed.stderr
    assert "pod new (stage search)" in followed.stderr
    assert "minio version" in followed.stdout
    earlier = command_line(
        node_cluster.kubeconfig, *("logs", "smollm2", "-n", namespace, "--stage", "profile")
    )
    assert "USAGE" in earlier.stdout
    api.delete(f"/api/v1/namespaces/{namespace}")
