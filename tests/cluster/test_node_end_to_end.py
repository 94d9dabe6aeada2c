"""From `helm install` to a promoted model: stages in pods of the built images, results in MinIO."""

import json
import re
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
import yaml
from clusters import wait_for
from node_stack import (
    BUCKET,
    FIRST,
    NAMESPACE,
    PATIENCE_SECONDS,
    RELEASE,
    artifacts,
    free_port,
    small_job,
    wait_until_gone,
)
from operators import stage

from autocompress.api import names

pytestmark = pytest.mark.slow

SERVER = "chat"
STAGES = ("Profile", "Search", "Recover", "Validate")
STEPS = ("preflight", *map(str.lower, STAGES))


@pytest.fixture(scope="module")
def done(first_job):
    """The status of the first job at its end."""
    return first_job.status


def test_a_job_ends_with_a_model_and_every_field_of_status(stack, first_job):
    status = first_job.status
    state = json.dumps(status, indent=1)
    assert stack.jobs.condition(FIRST, "Ready") == ("True", "Succeeded"), state
    conditions = {c["type"]: (c["status"], c["reason"]) for c in status["conditions"]}
    assert conditions == {
        "Ready": ("True", "Succeeded"),
        "Reconciling": ("False", "Finished"),
        "Stalled": ("False", "NotStalled"),
        "Succeeded": ("True", "Succeeded"),
        "Suspended": ("False", "NotSuspended"),
        "Admitted": ("True", "NotQueued"),
        "TargetAvailable": ("True", "NodeFound"),
        "ArtifactsAccessible": ("True", "ProbeSucceeded"),
        "BudgetMet": ("True", "BudgetMet"),
        "QualityMet": ("True", "QualityMet"),
    }
    assert [s["name"] for s in status["stages"]] == list(STAGES)
    for found in status["stages"]:
        assert (found["state"], found["attempt"]) == ("Succeeded", 1), state
        assert found["outputs"]["digest"].startswith("sha256:")
        assert found["startTime"] <= found["completionTime"]
    (limit,) = status["budgetReport"]
    assert (limit["name"], limit["unit"], limit["met"]) == ("Memory", "bytes", True)
    assert float(limit["measured"]) <= float(limit["limit"])
    assert float(limit["predicted"]) == pytest.approx(float(limit["measured"]), rel=0.05)
    assert {task["name"] for task in status["quality"]["tasks"]} >= {"piqa", "winogrande"}
    assert status["cost"]["engineStarts"] >= 3
    assert {s["name"] for s in status["cost"]["stages"]} == set(STAGES)
    assert status["resolved"]["sourceRevision"].startswith("sha256:")
    assert set(status["resolved"]["images"]) == set(STAGES)
    assert any(percent for shown in first_job.percents for percent in shown), "no progress seen"


def test_every_stage_ran_in_a_restricted_pod_of_the_built_images(stack, done):
    label = stack.api.get(f"/api/v1/namespaces/{NAMESPACE}")["metadata"]["labels"]
    assert label["pod-security.kubernetes.io/enforce"] == "restricted"
    assert stack.jobs.stages_run(FIRST) == list(STEPS)
    for step in STEPS:
        (pod,) = stack.pods(FIRST, step)
        (container,) = pod["spec"]["containers"]
        image = "operator" if step == "preflight" else "stage-cpu"
        assert f"autocompress/{image}:" in container["image"]
        assert pod["status"]["phase"] == "Succeeded"
        security = container["securityContext"]
        assert security["readOnlyRootFilesystem"] and not security["allowPrivilegeEscalation"]
        assert pod["spec"]["automountServiceAccountToken"] is False


def test_the_model_is_in_the_bucket_under_its_digest_and_loads(stack, done, tmp_path):
    result = done["result"]
    digest = result["digest"].removeprefix("sha256:")
    prefix = f"results/models/{digest}/"
    assert result["modelUri"].startswith(f"s3://{BUCKET}/{prefix}")
    assert f"{prefix}manifest.json" in stack.objects(prefix)
    with stack.bucket() as (_, url):
        fetched = stack.autocompress(
            *("fetch", result["modelUri"], "--digest", result["digest"]),
            *("--to", tmp_path / "model"),
            **stack.keys,
            AWS_ENDPOINT_URL=url,
        )
    assert fetched.returncode == 0, fetched.stderr
    said = stack.autocompress("generate", tmp_path / "model", "def main", "--max-tokens", "4")
    assert said.returncode == 0, said.stderr


def test_kubectl_shows_columns_and_events(stack, done):
    lines = stack.ask_kubectl("get", "compressionjobs", "-n", NAMESPACE).splitlines()
    assert lines[0].split() == [
        *("NAME", "STAGE", "PROGRESS", "READY", "REASON", "BUDGET", "QUALITY", "AGE")
    ]
    row = next(line.split() for line in lines if line.startswith(f"{FIRST} "))
    assert row[1:6] == ["Validate", "True", "Succeeded", "True", "True"]
    events = stack.jobs.events(FIRST)
    assert events.count("StageSucceeded") == len(STEPS)
    assert events.count("StageStarted") >= len(STAGES)
    assert "BudgetMet" in events
    described = stack.ask_kubectl("describe", f"cpj/{FIRST}", "-n", NAMESPACE)
    assert "Validate is done." in described


def test_the_command_line_reads_the_cluster(stack, done):
    listed = stack.autocompress("jobs", "-n", NAMESPACE)
    assert re.search(rf"{FIRST}\s+Validate\s+True\s+Succeeded", listed.stdout), listed.stderr
    for step in STEPS:
        logs = stack.autocompress("logs", FIRST, "-n", NAMESPACE, "--stage", step)
        assert logs.returncode == 0, logs.stderr
        assert step in logs.stderr
    assert "published" in logs.stdout


def promote(stack, done, form, folder):
    """The manifests that `promote` writes, after looking at what they say."""
    image = stack.pods(FIRST, "validate")[0]["spec"]["containers"][0]["image"]
    promoted = stack.autocompress(
        *("promote", f"compressionjob/{FIRST}", "-n", NAMESPACE, "--to", folder),
        # The images are loaded as files and have no name with a digest; two cores are shared.
        *("--name", SERVER, "--format", form, "--image", image, "--cpu", "1"),
    )
    assert promoted.returncode == 0, promoted.stderr
    documents = list(yaml.safe_load_all((folder / f"{SERVER}.yaml").read_text(encoding="utf-8")))
    notes = documents[0]["metadata"]["annotations"]
    assert notes[names.ANNOTATION_PROMOTED_FROM] == f"{NAMESPACE}/{FIRST}"
    assert notes[names.ANNOTATION_MODEL_DIGEST] == done["result"]["digest"]
    return documents


def test_promote_writes_a_server_for_kserve(stack, done, tmp_path):
    documents = promote(stack, done, "kserve", tmp_path)
    (service,) = [found for found in documents if found["kind"] == "InferenceService"]
    storage = service["spec"]["predictor"]["model"]["storageUri"]
    assert storage == done["result"]["modelUri"]


def test_a_promoted_server_runs_on_the_cluster_and_answers(stack, done, tmp_path):
    """Fetched by digest, checked, and served by the image that measured it."""
    promote(stack, done, "vllm", tmp_path)
    given = ("-n", NAMESPACE, "-f", tmp_path)
    stack.ask_kubectl("apply", *given)
    stack.ask_kubectl(
        *("rollout", "status", "-n", NAMESPACE, f"deployment/{SERVER}"),
        *("--timeout", f"{PATIENCE_SECONDS}s"),
    )
    with stack.forwarded(f"service/{SERVER}", 80, NAMESPACE) as port:
        body = {"model": SERVER, "prompt": "def main", "max_tokens": 4, "ignore_eos": True}
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/v1/completions",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
            said = json.load(answer)
    assert said["usage"]["completion_tokens"] == 4
    stack.ask_kubectl("delete", *given)


def test_prometheus_scrapes_what_the_operator_serves(stack, done, tmp_path):
    (limit,) = done["budgetReport"]
    with (
        stack.forwarded(f"service/{RELEASE}-metrics", 9090) as port,
        Prometheus(stack.program("prometheus"), port, tmp_path) as query,
    ):
        me = f'namespace="{NAMESPACE}",name="{FIRST}"'
        wait_for(lambda: query(f"compressionjob_info{{{me}}}"), "the first scrape")
        assert value(query(f'compressionjob_status_condition{{{me},type="Ready",status="True"}}'))
        for kind, field in (("limit", "limit"), ("measured", "measured")):
            found = query(f'compressionjob_budget_{kind}_bytes{{{me},constraint="Memory"}}')
            assert value(found) == pytest.approx(float(limit[field]))
        ratio = query(f"compressionjob_budget_utilization_ratio{{{me}}}")
        assert value(ratio) == pytest.approx(limit["utilizationPercent"] / 100, abs=0.01)
        kept = float(done["quality"]["retentionPercent"]) / 100
        found = query(f"compressionjob_quality_retention_ratio{{{me}}}")
        assert value(found) == pytest.approx(kept, abs=0.001)
        for name in STAGES:
            state = f'{me},stage="{name}",state="Succeeded"'
            assert value(query(f"compressionjob_stage_state{{{state}}}")) == 1, name
        assert value(query("sum(compression_stages_completed_total)")) >= len(STAGES)
        assert value(query("sum(compression_stage_duration_seconds_count)")) >= len(STAGES)
        assert value(query('compression_operator_reconcile_total{result="error"}')) == 0

        stack.jobs.create(small_job("brief", suspend=True))
        brief = f'compressionjob_info{{namespace="{NAMESPACE}",name="brief"}}'
        wait_for(lambda: query(brief), "the series of another job")
        wait_until_gone(stack.jobs, "brief")
        wait_for(lambda: not query(brief), "the end of its series")
        assert query(f"compressionjob_info{{{me}}}")


class Prometheus:
    """A server that scrapes one address every second; called with a query, gives its samples."""

    def __init__(self, program, port, folder):
        self._program, self._port, self._folder = program, port, Path(folder)
        self._listen = f"127.0.0.1:{free_port()}"

    def __enter__(self):
        target = {"targets": [f"127.0.0.1:{self._port}"]}
        config = {
            "global": {"scrape_interval": "1s"},
            "scrape_configs": [{"job_name": "operator", "static_configs": [target]}],
        }
        file = self._folder / "prometheus.yaml"
        file.write_text(yaml.safe_dump(config), encoding="utf-8")
        with (self._folder / "prometheus.log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *(self._program, f"--config.file={file}"),
                    f"--storage.tsdb.path={self._folder / 'data'}",
                    f"--web.listen-address={self._listen}",
                ],
                stdout=log,
                stderr=log,
            )
        return self._query

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait(timeout=30)

    def _query(self, text):
        words = urllib.parse.urlencode({"query": text})
        try:
            with urllib.request.urlopen(
                f"http://{self._listen}/api/v1/query?{words}", timeout=10
            ) as answer:
                return json.load(answer)["data"]["result"]
        except OSError:
            return []


def value(samples):
    (sample,) = samples
    return float(sample["value"][1])


def test_another_budget_reuses_the_table_and_its_deletion_takes_its_own_results(stack, done):
    before = set(stack.objects("results/"))
    body = small_job(
        "second",
        budget={"memory": {"maxPercentOfParent": 99}},
        artifacts=artifacts(deletionPolicy="Delete"),
    )
    stack.jobs.create(body)
    stack.jobs.wait_for_end("second", timeout_seconds=PATIENCE_SECONDS)
    status = stack.jobs.get("second")["status"]
    assert stack.jobs.condition("second", "Ready") == ("True", "Succeeded"), status
    spent = {s["name"]: s for s in status["cost"]["stages"]}
    assert spent["Profile"]["engineStarts"] == 0
    logs = stack.autocompress("logs", "second", "-n", NAMESPACE, "--stage", "profile")
    assert "cost table and parent costs found" in logs.stdout
    assert (
        stage(status, "Profile")["outputs"]["digest"]
        == (stage(done, "Profile")["outputs"]["digest"])
    )
    own = set(stack.objects("results/")) - before
    assert any(name.startswith("results/models/") for name in own)

    assert stack.jobs.get("second")["metadata"]["finalizers"] == [names.FINALIZER]
    wait_until_gone(stack.jobs, "second")
    left = set(stack.objects("results/"))
    assert {name for name in own & left if "/shared/" not in name} == set()
    assert before <= left, "what the first job uses stays"


def test_helm_test_passes(stack):
    assert "Succeeded" in stack.ask_helm("test", RELEASE, "--timeout", "5m")
