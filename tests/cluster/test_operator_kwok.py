"""The operator on a real API server, the pods of its Jobs played: lives of jobs, and faults."""

import time

import pytest
from clusters import MERGE, Refused, make_namespace, wait_for
from operators import Jobs, OperatorProcess, job, played, report, stage, wait_until_rest

from autocompress.api import names
from autocompress.contract.stage import Outcome

LONG = "3600s"


@pytest.fixture(scope="module")
def operator(kwok_cluster, tmp_path_factory):
    """One operator for all tests that do not kill it."""
    process = OperatorProcess(kwok_cluster, tmp_path_factory.mktemp("operator"))
    yield process
    assert process.stop() == 0, process.log.read_text()


@pytest.fixture
def jobs(kwok_cluster, operator):
    """A namespace of the test's own, served by the operator."""
    api = kwok_cluster.api
    name = make_namespace(api)
    yield Jobs(api, name)
    api.delete(f"/api/v1/namespaces/{name}")


def test_a_job_runs_through_all_stages(jobs):
    jobs.create(job("all"))
    status = jobs.wait_for_condition("all", "Ready", "True", timeout_seconds=120)
    assert jobs.stages_run("all") == ["preflight", "profile", "search", "recover", "validate"]
    assert [s["state"] for s in status["stages"]] == ["Succeeded"] * 4
    assert status["result"]["digest"] == "sha256:77"
    assert status["observedGeneration"] == 1
    assert jobs.condition("all", "Reconciling") == ("False", "Finished")
    made = jobs.get("all")
    assert "finalizers" not in made["metadata"]
    assert "annotations" not in made["metadata"], "nothing but status is written"
    managers = {(m["manager"], m.get("subresource")) for m in made["metadata"]["managedFields"]}
    assert (names.MANAGER, "status") in managers
    assert not any(manager == names.MANAGER and not sub for manager, sub in managers)
    events = jobs.events("all")
    assert events.count("StageSucceeded") == 5
    assert "BudgetMet" in events
    wait_until_rest(jobs, "all")


@pytest.mark.parametrize(
    ("step", "code", "reason", "ends_as"),
    [
        ("Preflight", 64, "InvalidSpec", "InvalidSpec"),
        ("Preflight", 77, "CredentialsInvalid", "PreflightFailed"),
        ("Profile", 64, "InvalidSpec", "InvalidSpec"),
        ("Profile", 65, "BadData", "StageFailed"),
        ("Profile", 69, "EndpointUnreachable", "StageFailed"),
        ("Profile", 70, "EngineFailed", "StageFailed"),
        ("Profile", 74, "DiskFull", "StageFailed"),
        ("Profile", 75, "ConditionsUnstable", "StageFailed"),
        ("Profile", 77, "CredentialsInvalid", "StageFailed"),
        ("Profile", 78, "BudgetInfeasible", "BudgetInfeasible"),
        ("Profile", 137, "OOMKilled", "StageFailed"),
        ("Profile", 1, "ContainerCrashed", "StageFailed"),
    ],
)
def test_every_exit_code_ends_in_its_reason(jobs, step, code, reason, ends_as):
    jobs.create(job("fails", played(step, code=code), runPolicy={"backoffLimit": 0}))
    jobs.wait_for_end("fails", timeout_seconds=90)
    status = jobs.wait_for_condition("fails", "Stalled", "True", ends_as)
    assert jobs.condition("fails", "Succeeded") == ("False", ends_as)
    attempt = status["preflight"] if step == "Preflight" else stage(status, step)
    assert attempt["state"] == "Failed"
    assert attempt["lastFailure"]["reason"] == reason
    assert attempt["lastFailure"]["exitCode"] == code
    if code not in (1, 137):
        assert attempt["lastFailure"]["message"] == f"{step} says what to do about {code}."
    assert jobs.stages_run("fails")[-1] == step.lower()


def test_a_kill_for_memory_is_tried_once_more(jobs):
    jobs.create(job("oom", played("Profile", code=137), runPolicy={"backoffLimit": 6}))
    status = jobs.wait_for_condition("oom", "Stalled", "True", timeout_seconds=90)
    assert stage(status, "Profile")["lastFailure"]["reason"] == "OOMKilled"
    live = [c for c in jobs.children("oom") if not c["status"].get("conditions")]
    assert live == []


def test_a_missed_budget_keeps_its_scorecard(jobs):
    message = report("Validate", Outcome.BUDGET_NOT_MET, model=None)
    jobs.create(job("missed", played("Validate", message=message)))
    status = jobs.wait_for_condition(
        "missed", "Stalled", "True", "BudgetNotMet", timeout_seconds=90
    )
    assert jobs.condition("missed", "Succeeded") == ("False", "BudgetNotMet")
    assert jobs.condition("missed", "Ready") == ("False", "BudgetNotMet")
    assert status["budgetReport"][0]["measured"] == "24"
    assert status["quality"]["retentionPercent"] == "98.4"
    assert "result" not in status


def test_a_parent_that_fits_already_stops_the_job(jobs):
    message = report("Profile", Outcome.BUDGET_ALREADY_MET)
    jobs.create(job("fits", played("Profile", message=message)))
    jobs.wait_for_condition("fits", "Succeeded", "True", "BudgetAlreadyMet", timeout_seconds=90)
    assert jobs.condition("fits", "Ready") == ("False", "BudgetAlreadyMet")
    assert jobs.stages_run("fits") == ["preflight", "profile"]


def test_suspend_and_resume(jobs):
    jobs.create(job("pause", played("Profile", delay=LONG)))
    jobs.wait_for_condition("pause", "Reconciling", "True", "StageRunning", timeout_seconds=90)
    jobs.patch("pause", {"spec": {"suspend": True}})
    jobs.wait_for_condition("pause", "Suspended", "True", "SuspendedBySpec")
    assert jobs.condition("pause", "Reconciling") == ("False", "SuspendedBySpec")
    profile = jobs.children("pause")[-1]
    assert profile["spec"]["suspend"] is True
    assert profile["status"].get("active", 0) == 0
    jobs.patch("pause", {"spec": {"suspend": False}})
    jobs.wait_for_condition("pause", "Reconciling", "True", "StageRunning")
    assert jobs.children("pause")[-1]["metadata"]["uid"] == profile["metadata"]["uid"]


def test_a_retry_by_annotation(jobs):
    jobs.create(job("again", played("Search", code=77)))
    jobs.wait_for_condition("again", "Stalled", "True", timeout_seconds=90)
    note = {"metadata": {"annotations": {names.ANNOTATION_RETRY_AT: "now"}}}
    jobs.patch("again", note)

    def tried_again():
        status = jobs.get("again")["status"]
        search = stage(status, "Search")
        return search["attempt"] == 2 and search["state"] == "Failed" and status

    status = wait_for(tried_again, "the second attempt", timeout_seconds=90)
    assert status["lastHandledRetryAt"] == "now"
    assert jobs.stages_run("again").count("search") == 2
    assert jobs.stages_run("again").count("profile") == 1


def test_a_deadline_ends_what_runs_before_it_says_so(jobs):
    jobs.create(job("late", played("Profile", delay=LONG), runPolicy={"activeDeadlineSeconds": 8}))
    status = jobs.wait_for_condition("late", "Succeeded", "False", timeout_seconds=90)
    assert jobs.condition("late", "Stalled") == ("True", "DeadlineExceeded")
    assert stage(status, "Profile")["lastFailure"]["reason"] == "DeadlineExceeded"
    for child in jobs.children("late"):
        assert child["status"].get("active", 0) == 0


def test_the_time_to_live_takes_the_job_and_its_children(jobs):
    jobs.create(job("short", runPolicy={"ttlSecondsAfterFinished": 1}))
    wait_for(lambda: jobs.is_gone("short"), "the end of the job", timeout_seconds=120)
    wait_for(lambda: jobs.children("short") == [], "the end of its children")


def test_deletion_cleans_up_before_the_job_goes(jobs):
    body = job("clean", played("Profile", delay=LONG))
    body["spec"]["artifacts"]["deletionPolicy"] = "Delete"
    jobs.create(body)
    jobs.wait_for_condition("clean", "Reconciling", "True", "StageRunning", timeout_seconds=90)
    for _ in range(20):  # it is put there once, and nothing takes it off again
        assert jobs.get("clean")["metadata"]["finalizers"] == [names.FINALIZER]
        time.sleep(0.1)
    jobs.delete("clean")
    wait_for(lambda: jobs.is_gone("clean"), "the end of the job", timeout_seconds=90)
    cleanup = [c for c in jobs.children("clean") if "cleanup" in c["metadata"]["name"]]
    assert [c["status"]["succeeded"] for c in cleanup] == [1]


def test_a_namespace_with_a_job_to_clean_up_can_go(kwok_cluster, operator):
    api = kwok_cluster.api
    name = make_namespace(api)
    body = job("held")
    body["spec"]["artifacts"]["deletionPolicy"] = "Delete"
    jobs = Jobs(api, name)
    jobs.create(body)
    jobs.wait_for_condition("held", "Reconciling", "True", timeout_seconds=90)
    api.delete(f"/api/v1/namespaces/{name}")

    def gone():
        try:
            api.get(f"/api/v1/namespaces/{name}")
        except Refused as error:
            return error.code == 404
        return False

    wait_for(gone, "the end of the namespace", timeout_seconds=120)


def test_quota_0_is_told_and_waited_for(jobs):
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none"},
        "spec": {"hard": {"pods": "0"}},
    }
    path = f"/api/v1/namespaces/{jobs.namespace}/resourcequotas"
    jobs.api.create(path, quota)
    wait_for(lambda: jobs.api.get(f"{path}/none").get("status", {}).get("hard"), "the quota")
    jobs.create(job("poor"))
    status = jobs.wait_for_condition(
        "poor", "Admitted", "False", "QuotaExceeded", timeout_seconds=90
    )
    words = next(c["message"] for c in status["conditions"] if c["type"] == "Admitted")
    assert "Quota none" in words
    assert jobs.condition("poor", "Stalled") == ("False", "NotStalled")
    jobs.api.delete(f"{path}/none")
    jobs.wait_for_condition("poor", "Ready", "True", timeout_seconds=120)


def test_a_pod_security_refusal_is_told(jobs):
    label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    jobs.api.merge(f"/api/v1/namespaces/{jobs.namespace}", label)
    jobs.create(job("good"))
    jobs.wait_for_condition("good", "Ready", "True", timeout_seconds=120)


def test_a_runtime_class_that_is_missing_is_a_refusal_that_is_told(jobs):
    template = {**played("Profile"), "runtimeClassName": "none"}
    jobs.create(job("refused", template))
    status = jobs.wait_for_condition("refused", "Stalled", "True", timeout_seconds=90)
    failure = stage(status, "Profile")["lastFailure"]
    assert failure["reason"] == "CreateFailed"
    assert "runtimeclass" in failure["message"].lower()


def test_a_spec_that_the_schema_cannot_refuse_is_refused_by_the_operator(jobs):
    """Rules that the API server's expressions do not cover are read by the operator."""
    body = job("odd")
    body["spec"]["source"]["uri"] = "s3://models/parent?x=1"
    try:
        jobs.create(body)
    except Refused:
        pytest.skip("the schema refuses it already")
    status = jobs.wait_for_condition("odd", "Stalled", "True", "InvalidSpec", timeout_seconds=60)
    words = next(c["message"] for c in status["conditions"] if c["type"] == "Stalled")
    assert "spec.source.uri" in words
    assert jobs.children("odd") == []


def test_a_child_that_a_person_deletes_comes_back(jobs):
    jobs.create(job("hand", played("Profile", delay=LONG)))
    jobs.wait_for_condition("hand", "Reconciling", "True", "StageRunning", timeout_seconds=90)
    before = jobs.children("hand")[-1]["metadata"]
    path = f"/apis/batch/v1/namespaces/{jobs.namespace}/jobs/{before['name']}"
    jobs.api.delete(path, propagationPolicy="Background")

    def there_again():
        found = [c["metadata"] for c in jobs.children("hand")]
        return [m for m in found if m["name"] == before["name"] and m["uid"] != before["uid"]]

    wait_for(there_again, "the Job under its old name", timeout_seconds=60)


def test_a_pod_that_is_deleted_is_replaced_within_its_job(jobs):
    jobs.create(job("pods", played("Profile", delay=LONG)))
    jobs.wait_for_condition("pods", "Reconciling", "True", "StageRunning", timeout_seconds=90)
    selector = "autocompress.dev/job=pods,autocompress.dev/stage=profile"
    path = f"/api/v1/namespaces/{jobs.namespace}/pods"
    first = jobs.api.get(path, labelSelector=selector)["items"][0]["metadata"]
    jobs.api.delete(f"{path}/{first['name']}")
    # What a kubelet writes once the containers have ended; until then a Job does not replace it.
    ended = {"status": {"phase": "Failed"}}
    jobs.api.request("PATCH", f"{path}/{first['name']}/status", ended, content=MERGE)

    def replaced():
        found = jobs.api.get(path, labelSelector=selector)["items"]
        return [p for p in found if p["metadata"]["uid"] != first["uid"]]

    wait_for(replaced, "another pod", timeout_seconds=60)
    status = jobs.get("pods")["status"]
    assert stage(status, "Profile")["attempt"] == 1


def gpu(product, count=1):
    return {"kind": "GPU", "product": product, "count": count}


def test_stages_run_on_the_nodes_of_the_target(jobs):
    target = gpu("NVIDIA-H100-80GB-HBM3", 8)
    jobs.create(job("h100", accelerator=target))
    status = jobs.wait_for_condition("h100", "Ready", "True", timeout_seconds=120)
    assert status["resolved"]["node"] == "h100-full"
    assert status["resolved"]["acceleratorProduct"] == "NVIDIA-H100-80GB-HBM3"
    assert jobs.condition("h100", "TargetAvailable") == ("True", "NodeFound")


@pytest.mark.parametrize(
    ("product", "reason"),
    [
        ("NVIDIA-B200", "NoMatchingNode"),
        ("NVIDIA-A100-SXM4-80GB", "MigMismatch"),
        ("NVIDIA-RTX-2000-Ada-Generation-SHARED", "NoMatchingNode"),
    ],
)
def test_a_target_without_a_node_is_told_and_waited_for(jobs, product, reason):
    jobs.create(job("nowhere", accelerator=gpu(product)))
    jobs.wait_for_condition("nowhere", "Reconciling", "True", reason, timeout_seconds=90)
    assert jobs.condition("nowhere", "TargetAvailable") == ("False", reason)
    assert jobs.condition("nowhere", "Stalled") == ("False", "NotStalled")


def test_recovery_on_two_nodes_is_an_indexed_job_with_a_service(jobs):
    jobs.create(job("wide", recovery={"nodes": 2}))
    jobs.wait_for_condition("wide", "Ready", "True", timeout_seconds=120)
    recover = next(c for c in jobs.children("wide") if "recover" in c["metadata"]["name"])
    assert recover["spec"]["completionMode"] == "Indexed"
    name = recover["metadata"]["name"]
    service = jobs.api.get(f"/api/v1/namespaces/{jobs.namespace}/services/{name}")
    assert service["spec"]["clusterIP"] == "None"
    assert service["metadata"]["ownerReferences"][0]["name"] == "wide"


def test_a_recovery_engine_that_is_missing_is_told_at_once(jobs):
    jobs.create(job("none", recovery={"engine": "JobSet", "nodes": 2}))
    jobs.wait_for_condition("none", "Stalled", "True", "EngineNotInstalled", timeout_seconds=60)
    assert jobs.children("none") == []


def test_two_jobs_of_one_name_in_turn_do_not_share_children(jobs):
    jobs.create(job("twice", played("Profile", delay=LONG)))
    jobs.wait_for_condition("twice", "Reconciling", "True", "StageRunning", timeout_seconds=90)
    jobs.delete("twice")
    wait_for(lambda: jobs.is_gone("twice"), "the end of the first")
    jobs.create(job("twice"))
    status = jobs.wait_for_condition("twice", "Ready", "True", timeout_seconds=120)
    assert [s["attempt"] for s in status["stages"]] == [1, 1, 1, 1]


@pytest.mark.slow
def test_an_operator_that_is_killed_at_any_moment_loses_nothing(kwok_cluster, tmp_path):
    """Killed again and again at moments that fall where they fall, also between two writes."""
    api = kwok_cluster.api
    jobs = Jobs(api, make_namespace(api))
    watched = jobs.namespace
    for number in range(8):
        jobs.create(job(f"job-{number}"))
    lives = 0
    end = time.monotonic() + 240
    while time.monotonic() < end:
        process = OperatorProcess(kwok_cluster, tmp_path, AUTOCOMPRESS_WATCH_NAMESPACES=watched)
        time.sleep(4 + lives % 3 * 0.7)
        process.kill()
        lives += 1
        if all(jobs.condition(f"job-{n}", "Ready") == ("True", "Succeeded") for n in range(8)):
            break
    for number in range(8):
        name = f"job-{number}"
        assert jobs.condition(name, "Ready") == ("True", "Succeeded"), jobs.get(name)["status"]
        assert jobs.stages_run(name) == ["preflight", "profile", "search", "recover", "validate"]
    api.delete(f"/api/v1/namespaces/{watched}")
