"""The operator while the API server refuses, loses answers, is away, and while pods are evicted."""

import itertools
import time

import pytest
from api_proxy import ApiProxy
from clusters import MERGE, job_path, make_namespace, wait_for
from operators import Jobs, OperatorProcess, job, played, stage

pytestmark = pytest.mark.slow
ORDER = ["preflight", "profile", "search", "recover", "validate"]


@pytest.fixture
def proxy(kwok_cluster, tmp_path):
    made = ApiProxy(kwok_cluster, tmp_path)
    yield made
    made.close()


@pytest.fixture
def jobs(kwok_cluster):
    api = kwok_cluster.api
    made = Jobs(api, make_namespace(api))
    yield made
    api.delete(f"/api/v1/namespaces/{made.namespace}")


@pytest.fixture
def start(proxy, jobs, tmp_path):
    """``start()``: an operator for the namespace of ``jobs`` that sees the cluster by ``proxy``."""
    started = []

    def run():
        started.append(
            OperatorProcess(proxy, tmp_path, AUTOCOMPRESS_WATCH_NAMESPACES=jobs.namespace)
        )
        return started[-1]

    yield run
    for process in started:
        process.kill()


def assert_each_stage_ran_once(jobs, name):
    status = jobs.wait_for_condition(name, "Ready", "True", "Succeeded", timeout_seconds=180)
    assert jobs.stages_run(name) == ORDER
    assert [s["attempt"] for s in status["stages"]] == [1, 1, 1, 1]


@pytest.mark.parametrize("code", [409, 429, 500])
def test_requests_that_are_refused_now_and_then_are_made_again(proxy, jobs, start, code):
    turns = itertools.count()
    refused = []

    def refuse(method, path):
        if method == "GET" or next(turns) % 3:
            return None
        refused.append(f"{method} {path}")
        return code

    proxy.refuse = refuse
    start()
    for number in range(4):
        jobs.create(job(f"job-{number}"))
    for number in range(4):
        assert_each_stage_ran_once(jobs, f"job-{number}")
    # Statuses and children alike were refused, or this shows nothing.
    assert any("/compressionjobs/" in path for path in refused)
    assert any("/jobs" in path for path in refused)


@pytest.mark.parametrize("what", ["/jobs", "/compressionjobs/"])
def test_answers_that_are_lost_change_nothing(proxy, jobs, start, what):
    """The server has done what it was asked to do; the operator is told of an error."""
    turns = itertools.count()
    lost = []

    def passed(method, path, code):
        if method == "GET" or what not in path or code >= 400 or next(turns) % 2:
            return None
        lost.append(path)
        return 500

    proxy.passed = passed
    start()
    jobs.create(job("lost"))
    assert_each_stage_ran_once(jobs, "lost")
    assert lost


def test_an_operator_killed_between_a_create_and_the_status_goes_on(proxy, jobs, start):
    """Right after each Job was made, before anything could be written about it."""
    running, killed = [], []

    def passed(method, path, code):
        made = method in ("POST", "PATCH") and "/batch/v1/" in path and code in (200, 201)
        if made and path not in killed and running:
            killed.append(path)
            running.pop().kill()
            return 500
        return None

    proxy.passed = passed
    running.append(start())
    jobs.create(job("between"))
    end = time.monotonic() + 240
    while jobs.condition("between", "Ready") != ("True", "Succeeded"):
        assert time.monotonic() < end, jobs.get("between").get("status")
        if not running:
            running.append(start())
        time.sleep(0.2)
    assert killed
    assert_each_stage_ran_once(jobs, "between")


def test_an_api_server_that_was_killed_and_is_back_finds_the_operator_waiting(
    kwok_cluster, jobs, start
):
    if kwok_cluster.folder is None:
        pytest.skip("the API server of a cluster that KUBECONFIG names is not ours to stop")
    process = start()
    jobs.create(job("away", played("Profile", delay="15s")))
    jobs.wait_for_condition("away", "Reconciling", "True", "StageRunning", timeout_seconds=90)
    kwok_cluster.stop("apiserver", "--kill")
    time.sleep(5)
    kwok_cluster.start("apiserver")
    wait_for(lambda: _answers(jobs), "the API server", timeout_seconds=90)
    jobs.create(job("after"))
    assert_each_stage_ran_once(jobs, "away")
    assert_each_stage_ran_once(jobs, "after")
    assert process.is_running()


def _answers(jobs):
    try:
        # Served last: kinds of definitions come after the server's own.
        return jobs.api.get(job_path(jobs.namespace))
    except Exception:  # noqa: BLE001  # any kind of refused connection
        return None


def test_an_evicted_pod_is_no_failure_of_its_stage(jobs, start):
    start()
    jobs.create(job("evicted", played("Profile", delay="8s")))
    jobs.wait_for_condition("evicted", "Reconciling", "True", "StageRunning", timeout_seconds=90)
    path = f"/api/v1/namespaces/{jobs.namespace}/pods"
    selector = "autocompress.dev/job=evicted,autocompress.dev/stage=profile"
    (pod,) = jobs.api.get(path, labelSelector=selector)["items"]
    message = "The node was low on resource: memory."
    status = {
        "phase": "Failed",
        "reason": "Evicted",
        "message": message,
        "conditions": [
            {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "TerminationByKubelet",
                "message": message,
            }
        ],
    }
    name = pod["metadata"]["name"]
    jobs.api.request("PATCH", f"{path}/{name}/status", {"status": status}, content=MERGE)

    def retried():
        failure = stage(jobs.get("evicted")["status"], "Profile").get("lastFailure", {})
        return failure.get("reason")

    assert wait_for(retried, "the failure in status") == "NodeMemoryPressure"
    assert_each_stage_ran_once(jobs, "evicted")
