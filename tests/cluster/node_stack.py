"""autocompress on a cluster that runs pods: its images, its chart with MinIO, and jobs on a parent
that is small enough for a node's cores.
"""

import base64
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest
from clusters import PROGRAMS, Refused, job_path, wait_for
from minio import Minio
from node_parent import make_parent
from operators import Jobs

sys.path.insert(0, str(Path(__file__).parents[1] / "chart"))
from programs import Programs, run

CHART = Path(__file__).parents[2] / "charts" / "autocompress"
RELEASE = "autocompress"
#: Where the release is, and where jobs are; both take restricted pods only.
RELEASE_NAMESPACE, NAMESPACE = "autocompress", "models"
SECRET = "s3"
FIRST = "first"
BUCKET = "autocompress"
PARENT = f"s3://{BUCKET}/parents/tiny"
RESULTS = f"s3://{BUCKET}/results"
ENDPOINT = f"http://{RELEASE}-minio.{RELEASE_NAMESPACE}.svc:9000"
STORAGE_CLASS = "autocompress-tests"
#: The image's user, who must be able to write to a volume that is a folder of this machine.
USER_ID = 65532
#: Names a folder with the archives of both images, where it is not the one they are built in.
ARCHIVES = "AUTOCOMPRESS_IMAGES"
BUILT = Path(__file__).parents[2] / "build" / "images"
ARCHIVE_NAMES = ("operator.tar", "stage-cpu.tar")
#: Two busy cores: an engine alone takes half a minute to start.
PATIENCE_SECONDS = 900

_FORWARDED = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+)")


def archives():
    """The images' archives; the test is skipped where they are not all there."""
    folder = Path(os.environ.get(ARCHIVES) or BUILT)
    found = [folder / name for name in ARCHIVE_NAMES]
    missing = [file.name for file in found if not file.exists()]
    if missing:
        pytest.skip(
            f"no {' and '.join(missing)} in {folder}: `make image-archives`, "
            f"or set {ARCHIVES} to a folder that has them"
        )
    return found


@dataclass(frozen=True)
class Stack:
    """The chart installed on a cluster, with the parent in its MinIO."""

    cluster: object
    programs: Programs

    def program(self, name):
        """The path of a program; the test is skipped where it is nowhere."""
        found = self.programs.find(name)
        if found is None:
            pytest.skip(
                f"needs {name}: put it into PATH, or set {PROGRAMS} to a folder that has it"
            )
        return found

    @cached_property
    def api(self):
        return self.cluster.api

    @cached_property
    def jobs(self):
        """The jobs of the namespace that tests share."""
        return Jobs(self.api, NAMESPACE)

    def pods(self, name, stage):
        """The pods of a stage of a job, oldest first."""
        found = self.api.get(
            f"/api/v1/namespaces/{NAMESPACE}/pods",
            labelSelector=f"autocompress.dev/job={name},autocompress.dev/stage={stage}",
        )["items"]
        return sorted(found, key=lambda pod: pod["metadata"]["creationTimestamp"])

    def ask_kubectl(self, *arguments):
        """What kubectl prints."""
        return run(self.program("kubectl"), "--kubeconfig", self.cluster.kubeconfig, *arguments)

    def ask_helm(self, *arguments, namespace=RELEASE_NAMESPACE):
        """What helm prints."""
        given = ("--kubeconfig", self.cluster.kubeconfig, "--namespace", namespace)
        return run(self.program("helm"), *arguments, *given)

    def autocompress(self, *arguments, **environment):
        """The command line; its output and code, whatever they are."""
        return subprocess.run(
            [sys.executable, "-m", "autocompress", *map(str, arguments)],
            env={**os.environ, "KUBECONFIG": str(self.cluster.kubeconfig), **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        )

    @contextmanager
    def forwarded(self, target, port, namespace=RELEASE_NAMESPACE):
        """A port of a service or pod as one of this machine."""
        process = subprocess.Popen(
            [
                *(str(self.program("kubectl")), "--kubeconfig", str(self.cluster.kubeconfig)),
                *("port-forward", "--namespace", namespace, target, f":{port}"),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            line = process.stdout.readline()
            found = _FORWARDED.search(line)
            assert found, f"kubectl port-forward {target}: {line or 'no answer'}"
            yield int(found[1])
        finally:
            process.terminate()
            process.communicate(timeout=30)

    @cached_property
    def keys(self):
        """The evaluation MinIO's access key and secret key."""
        path = f"/api/v1/namespaces/{RELEASE_NAMESPACE}/secrets/{RELEASE}-minio"
        data = self.api.get(path)["data"]
        names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
        return {name: base64.b64decode(data[name]).decode() for name in names}

    @contextmanager
    def bucket(self):
        """A client of the evaluation MinIO, and its address."""
        with self.forwarded(f"service/{RELEASE}-minio", 9000) as port:
            address = f"127.0.0.1:{port}"
            yield Minio(address, *self.keys.values(), secure=False), f"http://{address}"

    def objects(self, prefix=""):
        """The names of the objects of the bucket."""
        with self.bucket() as (client, _):
            found = client.list_objects(BUCKET, prefix=prefix, recursive=True)
            return [entry.object_name for entry in found]


def install(cluster, folder):
    """Bring images, chart, credentials and parent to a cluster."""
    stack = Stack(cluster, Programs(unpacked=folder))
    values = dict(VALUES)
    if cluster.folder is None:
        _refuse_a_release_in_use(stack)
    else:
        for archive in archives():
            cluster.load(archive)
        cluster.image("minio")
        values |= {"minio.image": LOADED_MINIO}
        values |= {"minio.persistence": {"size": "1Gi", "storageClassName": STORAGE_CLASS}}
        _make_volume(stack, folder)
    for namespace in (RELEASE_NAMESPACE, NAMESPACE):
        _make_namespace(stack, namespace)
    options = [f"--set-json={key}={json.dumps(value)}" for key, value in values.items()]
    # Other tests may have put the definition there.
    fixed = ("--take-ownership", "--wait", "--timeout", "10m")
    stack.ask_helm("upgrade", "--install", RELEASE, CHART, *fixed, *options)
    put_secret(stack, SECRET, stack.keys)
    parent = folder / "parent"
    make_parent(parent)
    with stack.bucket() as (client, _):
        for file in parent.iterdir():
            client.fput_object(BUCKET, f"parents/tiny/{file.name}", str(file))
    return stack


def _refuse_a_release_in_use(stack):
    """Two operators would decide for the same jobs, and ours goes at the end."""
    label = "app.kubernetes.io/name=autocompress"
    if stack.api.get("/apis/apps/v1/deployments", labelSelector=label)["items"]:
        pytest.skip("autocompress is installed on this cluster: `helm uninstall` it first")


def uninstall(stack):
    """Leave a cluster that others use as it was, but for the resource definition."""
    for found in stack.api.get(job_path(NAMESPACE))["items"]:
        wait_until_gone(stack.jobs, found["metadata"]["name"])
    stack.ask_helm("uninstall", RELEASE, "--wait")
    for namespace in (NAMESPACE, RELEASE_NAMESPACE):
        stack.api.delete(f"/api/v1/namespaces/{namespace}")


#: Beside what the cluster asks for: fast answers, and no time of the tests' waited away.
VALUES = {
    "stages.namespaces": [NAMESPACE],
    "stages.imagePullPolicy": "IfNotPresent",
    "minio.enabled": True,
    "operator.extraEnv": [{"name": "AUTOCOMPRESS_PROGRESS_SECONDS", "value": "2"}],
}
LOADED_MINIO = {"registry": "localhost", "repository": "minio", "tag": "1"}


def _make_volume(stack, folder):
    """A folder of this machine, which all nodes have: they have no storage class of their own."""
    data = folder / "minio"
    data.mkdir()
    for above in (data, *data.parents):
        if above.stat().st_uid != os.getuid():
            break
        above.chmod(above.stat().st_mode | 0o011)
    shutil.chown(data, USER_ID, USER_ID)
    stack.api.create(
        "/api/v1/persistentvolumes",
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": STORAGE_CLASS},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": STORAGE_CLASS,
                "hostPath": {"path": str(data)},
            },
        },
    )


def _make_namespace(stack, name):
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    stack.api.apply(f"/api/v1/namespaces/{name}", body)


def put_secret(stack, name, keys):
    """Credentials for jobs."""
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "stringData": keys,
    }
    stack.api.apply(f"/api/v1/namespaces/{NAMESPACE}/secrets/{name}", body)


def small_job(name, *, labels=None, **spec):
    """A job on the small parent: a minute for each stage, on two cores.

    A limit on memory, since times of a model this small are those of the engine around it.
    """
    return {
        "apiVersion": "autocompress.dev/v1alpha1",
        "kind": "CompressionJob",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {
            "source": {"uri": PARENT},
            "target": {
                "accelerator": {"kind": "CPU"},
                "precision": "FP32",
                "engine": {"name": "VLLM", "version": "0.32.0"},
                "workload": {"promptTokens": 32, "outputTokens": 8, "concurrency": 1},
            },
            "budget": {"memory": {"maxPercentOfParent": 98}},
            "quality": {"suite": "smoke", "limit": 2, "minRetentionPercent": 0},
            "search": {
                "steps": 4,
                "stepTokens": 64,
                "sequenceTokens": 64,
                "calibrationTokens": 256,
                "hiddenSizes": [256],
                "intermediateSizes": [512, 2048],
            },
            "recovery": recovery(),
            "artifacts": artifacts(),
            "serviceAccountName": "autocompress-stage",
            **spec,
        },
    }


@dataclass(frozen=True)
class Seen:
    """A job's status at its end, and the percents of its stages that were shown on the way."""

    status: dict
    percents: list


def run_first(stack):
    """Run the first job to its end."""
    stack.jobs.create(small_job(FIRST))

    def shown():
        status = stack.jobs.get(FIRST).get("status", {})
        return [s.get("progress", {}).get("percent") for s in status.get("stages", [])]

    def is_over(_):
        return "completionTime" in stack.jobs.get(FIRST).get("status", {})

    percents = watch(shown, is_over)
    return Seen(status=stack.jobs.get(FIRST)["status"], percents=percents)


def recovery(**changes):
    """Ten steps."""
    given = {"tokens": 1920, "stepTokens": 192, "sequenceTokens": 64, "checkpointEverySteps": 3}
    return {**given, **changes}


def artifacts(**changes):
    """Into the evaluation MinIO."""
    given = {
        "uri": RESULTS,
        "endpoint": ENDPOINT,
        "credentialsSecretRef": {"name": SECRET},
    }
    return {**given, **changes}


def wait_until_gone(jobs, name):
    """Delete a job and wait until it and its pods are gone."""
    try:
        jobs.delete(name)
    except Refused as error:
        assert error.code == 404, error
    wait_for(lambda: jobs.is_gone(name), f"the end of {name}", timeout_seconds=PATIENCE_SECONDS)


def free_port():
    """A port of this machine that nobody uses."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def watch(look, until, *, timeout_seconds=PATIENCE_SECONDS, pace_seconds=1.0):
    """All different values that ``look`` returns before ``until`` holds for one, that one last."""
    seen = []
    end = time.monotonic() + timeout_seconds
    while True:
        value = look()
        if not seen or value != seen[-1]:
            seen.append(value)
        if until(value):
            return seen
        assert time.monotonic() < end, f"waited {timeout_seconds} s; last seen: {value}"
        time.sleep(pace_seconds)
