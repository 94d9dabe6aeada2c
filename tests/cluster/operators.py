"""The operator as a process beside a cluster, and jobs whose stages are played by kwok."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from clusters import Refused, job_path, wait_for

from autocompress.contract.documents import dump_line
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

PLAYED = "pod-complete.stage.kwok.x-k8s.io/"
STEPS = ("Preflight", "Profile", "Search", "Recover", "Validate")
#: Short graces, so that tests see what happens after them.
ENVIRONMENT = {
    "AUTOCOMPRESS_OPERATOR_IMAGE": "registry.example/operator:1",
    "AUTOCOMPRESS_STAGE_IMAGE_CPU": "registry.example/stage-cpu:1",
    "AUTOCOMPRESS_STAGE_IMAGE_CUDA": "registry.example/stage-cuda:1",
    "AUTOCOMPRESS_STAGE_IMAGE_TENSORRT_LLM": "registry.example/stage-trtllm:1",
    "AUTOCOMPRESS_LIVENESS_PORT": "0",
    "AUTOCOMPRESS_METRICS_PORT": "0",
    "AUTOCOMPRESS_START_GRACE_SECONDS": "3",
    "AUTOCOMPRESS_REPORT_GRACE_SECONDS": "2",
}


class OperatorProcess:
    """``python -m autocompress_operator`` with a kubeconfig; its log in a file."""

    def __init__(self, cluster, folder, **environment):
        self.log = Path(folder) / "operator.log"
        self.metrics_port = environment.get("AUTOCOMPRESS_METRICS_PORT", "0")
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "autocompress_operator"],
                env={
                    **{k: v for k, v in os.environ.items() if not k.startswith("AUTOCOMPRESS_")},
                    **ENVIRONMENT,
                    **environment,
                    "KUBECONFIG": str(cluster.kubeconfig),
                },
                stdout=log,
                stderr=log,
            )

    @property
    def pid(self):
        return self._process.pid

    def is_running(self):
        return self._process.poll() is None

    def kill(self):
        """Without a chance to end well."""
        self._end(signal.SIGKILL)

    def stop(self):
        """As a kubelet does; returns the exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, how):
        if self._process.poll() is None:
            self._process.send_signal(how)
        try:
            return self._process.wait(timeout=40)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise

    def scrape(self):
        """Its metrics, as text."""
        url = f"http://127.0.0.1:{self.metrics_port}/metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.read().decode()


def played(step, *, code=0, message=None, delay=None):
    """A stage template by which kwok plays the pods of one step."""
    notes = {f"{PLAYED}exit-code": str(code)}
    if message is None:
        message = report(step) if code == 0 else fault(step, code)
    notes[f"{PLAYED}message"] = message
    if delay is not None:
        notes[f"{PLAYED}delay"] = delay
    return {"name": step, "annotations": notes}


def report(step, outcome=Outcome.DONE, **fields):
    """What a step that is done leaves."""
    stage = step.lower()
    given = {"stage": stage, "outcome": outcome, "message": f"{step} is done."}
    if step == "Preflight":
        given["source_revision"] = "sha256:parent"
    else:
        given |= {
            "source_revision": "sha256:parent",
            "input_digest": f"sha256:in-{stage}",
            "output_digest": f"sha256:out-{stage}",
            "manifest_uri": f"s3://bucket/prefix/{stage}/manifest.json",
            "cost": CostReport(
                wall_seconds=60.0, device_hours=0.05, tokens=100, engine_starts=1, bytes_moved=10
            ),
        }
    if step == "Validate":
        given["budget"] = (
            LimitReport(
                name="TimePerOutputTokenP95",
                unit="ms",
                limit=25.0,
                predicted=23.1,
                measured=24.0,
                met=True,
                utilization_percent=96.0,
            ),
        )
        given["quality"] = QualityReport(
            suite="default",
            baseline=0.712,
            measured=0.701,
            retention_percent=98.4,
            tasks=(TaskReport(name="piqa", baseline=0.67, measured=0.655, standard_error=0.011),),
        )
        given["model"] = ModelReport(
            uri="s3://bucket/prefix/models/77",
            manifest_uri="s3://bucket/prefix/models/77/manifest.json",
            digest="sha256:77",
        )
    return dump_line(StageReport(**{**given, **fields})).decode()


_REASONS = {
    64: Reason.INVALID_SPEC,
    65: Reason.BAD_DATA,
    69: Reason.ENDPOINT_UNREACHABLE,
    70: Reason.ENGINE_FAILED,
    74: Reason.DISK_FULL,
    75: Reason.CONDITIONS_UNSTABLE,
    77: Reason.CREDENTIALS_INVALID,
    78: Reason.BUDGET_INFEASIBLE,
}


def fault(step, code):
    """What a step that failed leaves; nothing for codes that are not its own."""
    if code not in _REASONS:
        return ""
    words = f"{step} says what to do about {code}."
    return dump_line(StageFault(stage=step.lower(), reason=_REASONS[code], message=words)).decode()


def job(name, *templates, accelerator=None, **spec):
    """A CompressionJob whose steps succeed, but for those of ``templates``."""
    given = {template["name"]: template for template in templates}
    return {
        "apiVersion": "autocompress.dev/v1alpha1",
        "kind": "CompressionJob",
        "metadata": {"name": name},
        "spec": {
            "source": {"uri": "s3://models/parent"},
            "target": {
                "accelerator": accelerator or {"kind": "CPU"},
                "precision": "BF16",
                "engine": {"name": "VLLM", "version": "0.32.0"},
                "workload": {"promptTokens": 128, "outputTokens": 64},
            },
            "budget": {
                "latency": [
                    {"metric": "TimePerOutputToken", "percentile": 95, "maxMilliseconds": 25}
                ]
            },
            "artifacts": {"uri": "s3://bucket/prefix", "credentialsSecretRef": {"name": "s3"}},
            "stageTemplates": [given.get(step) or played(step) for step in STEPS],
            **spec,
        },
    }


class Jobs:
    """The CompressionJobs of one namespace."""

    def __init__(self, api, namespace):
        self.api = api
        self.namespace = namespace

    def create(self, body):
        self.api.create(job_path(self.namespace), body)
        return body["metadata"]["name"]

    def get(self, name):
        return self.api.get(job_path(self.namespace, name))

    def patch(self, name, body):
        return self.api.merge(job_path(self.namespace, name), body)

    def delete(self, name):
        return self.api.delete(job_path(self.namespace, name))

    def is_gone(self, name):
        try:
            self.get(name)
        except Refused as error:
            return error.code == 404
        return False

    def condition(self, name, type_):
        """Status and reason of a condition; None before the first visit."""
        for found in self.get(name).get("status", {}).get("conditions", []):
            if found["type"] == type_:
                return found["status"], found["reason"]
        return None

    def wait_for_condition(self, name, type_, status, reason=None, *, timeout_seconds=60):
        def there():
            shown = self.condition(name, type_)
            return shown is not None and shown[0] == status and reason in (None, shown[1])

        try:
            wait_for(there, f"{name}: {type_}={status}", timeout_seconds=timeout_seconds)
        except AssertionError as error:
            state = json.dumps(self.get(name).get("status"), indent=1)
            raise AssertionError(f"{error}\n{state}") from None
        return self.get(name)["status"]

    def wait_for_end(self, name, *, timeout_seconds=60):
        def over():
            shown = self.condition(name, "Succeeded")
            return shown is not None and shown[0] in ("True", "False")

        wait_for(over, f"the end of {name}", timeout_seconds=timeout_seconds)
        return self.get(name)["status"]

    def children(self, name):
        """The Jobs of a CompressionJob, oldest first."""
        found = self.api.get(
            f"/apis/batch/v1/namespaces/{self.namespace}/jobs",
            labelSelector=f"autocompress.dev/job={name}",
        )["items"]
        return sorted(found, key=lambda child: child["metadata"]["creationTimestamp"])

    def stages_run(self, name):
        return [c["metadata"]["labels"]["autocompress.dev/stage"] for c in self.children(name)]

    def events(self, name):
        """Reasons of the Events about a CompressionJob."""
        found = self.api.get(
            f"/api/v1/namespaces/{self.namespace}/events",
            fieldSelector=f"involvedObject.kind=CompressionJob,involvedObject.name={name}",
        )["items"]
        return [event["reason"] for event in found]


def stage(status, name):
    """One stage of a status."""
    return next(found for found in status["stages"] if found["name"] == name)


def wait_until_rest(jobs, name, *, seconds=3):
    """The object does not change any more."""

    def version():
        return jobs.get(name)["metadata"]["resourceVersion"]

    before, since = version(), time.monotonic()
    while time.monotonic() - since < seconds:
        time.sleep(0.2)
        now = version()
        if now != before:
            before, since = now, time.monotonic()
    return before
