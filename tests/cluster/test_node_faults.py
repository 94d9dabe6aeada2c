"""What a real cluster does to stages: killed for memory, deleted, cut off, and left by their node.

The jobs want a recovery of their own after the profile and the search that are in the store.
"""

import pytest
from clusters import MERGE, Refused, wait_for
from node_stack import (
    ENDPOINT,
    NAMESPACE,
    PATIENCE_SECONDS,
    RELEASE,
    RELEASE_NAMESPACE,
    artifacts,
    put_secret,
    recovery,
    small_job,
    wait_until_gone,
)
from operators import stage

pytestmark = pytest.mark.slow

GOING_ON = "going on from the checkpoint after step"
MINIO = f"/apis/apps/v1/namespaces/{RELEASE_NAMESPACE}/statefulsets/{RELEASE}-minio"
UNREACHABLE = (
    {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"},
    {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
)


def long_recovery(seed, *, steps):
    """A few steps a second on two idle cores; each seed is a recovery of its own."""
    return recovery(tokens=192 * steps, checkpointEverySteps=5, seed=seed)


@pytest.fixture
def run(stack, first_job):
    """``run(body)`` makes a job, which goes at the end."""
    made = []

    def create(body):
        made.append(stack.jobs.create(body))
        return made[-1]

    yield create
    for name in made:
        wait_until_gone(stack.jobs, name)


def recover(stack, name):
    return stage(stack.jobs.get(name)["status"], "Recover")


def checkpointed(stack, name):
    """The recovery's pod, once a checkpoint of it is in the store."""
    wait_for(
        lambda: stack.jobs.condition(name, "Reconciling") and recover(stack, name).get("jobRef"),
        "the recovery",
        timeout_seconds=PATIENCE_SECONDS,
    )
    digest = recover(stack, name)["inputDigest"].removeprefix("sha256:")
    prefix = f"results/checkpoints/{digest}/"
    wait_for(lambda: stack.objects(prefix), "a checkpoint", timeout_seconds=PATIENCE_SECONDS)
    return stack.pods(name, "recover")[-1]


def wait_for_recovery(stack, name):
    """The stage once it is over."""

    def over():
        found = recover(stack, name)
        return found if found["state"] in ("Succeeded", "Failed") else None

    return wait_for(over, "the end of the recovery", timeout_seconds=PATIENCE_SECONDS)


def replacement(stack, name, pod):
    """The pod that came after another one."""

    def newest():
        found = stack.pods(name, "recover")
        return found and found[-1]["metadata"]["uid"] != pod["metadata"]["uid"] and found[-1]

    return wait_for(newest, "another pod", timeout_seconds=PATIENCE_SECONDS)


def log_of(stack, pod):
    """What a pod has said so far; nothing before its container has started."""
    name = pod["metadata"]["name"]
    try:
        phase = stack.api.get(f"/api/v1/namespaces/{NAMESPACE}/pods/{name}")["status"]["phase"]
    except Refused:
        return ""
    return "" if phase == "Pending" else stack.ask_kubectl("logs", "-n", NAMESPACE, name)


def failed(stack, name, reason):
    """The status of a job that ended for a reason."""
    status = stack.jobs.wait_for_end(name, timeout_seconds=PATIENCE_SECONDS)
    assert stack.jobs.condition(name, "Succeeded") == ("False", reason), status
    return status


def unprofiled(name, memory):
    """A job whose profile is not in the store, and gets so much memory."""
    template = {"name": "Profile", "resources": {"limits": {"memory": memory}}}
    body = small_job(name, stageTemplates=[template], runPolicy={"backoffLimit": 0})
    body["spec"]["target"]["workload"]["outputTokens"] = 9
    return body


def test_a_wrong_key_is_told_by_the_preflight(stack, run):
    put_secret(stack, "wrong", {**stack.keys, "AWS_SECRET_ACCESS_KEY": "x" * 40})
    given = artifacts(credentialsSecretRef={"name": "wrong"})
    run(small_job("wrong-key", artifacts=given))
    status = failed(stack, "wrong-key", "PreflightFailed")
    failure = status["preflight"]["lastFailure"]
    assert (failure["reason"], failure["exitCode"]) == ("CredentialsInvalid", 77)
    assert stack.jobs.condition("wrong-key", "ArtifactsAccessible") == (
        "False",
        "CredentialsInvalid",
    )
    assert stack.jobs.stages_run("wrong-key") == ["preflight"]


def test_too_little_memory_is_told_as_such(stack, run):
    run(unprofiled("poor", "128Mi"))
    failure = stage(failed(stack, "poor", "StageFailed"), "Profile")["lastFailure"]
    assert (failure["reason"], failure["exitCode"]) == ("OOMKilled", 137)
    assert "memory" in failure["message"]
    for pod in stack.pods("poor", "profile"):
        (container,) = pod["status"]["containerStatuses"]
        assert container["state"]["terminated"]["reason"] == "OOMKilled"


def test_an_engine_that_is_killed_for_memory_is_told_as_such(stack, run):
    """The container outlives its largest process."""
    run(unprofiled("engine-oom", "700Mi"))
    failure = stage(failed(stack, "engine-oom", "StageFailed"), "Profile")["lastFailure"]
    assert failure["reason"] == "OOMKilled", failure
    assert "memory" in failure["message"]


def test_a_pod_that_is_killed_mid_recovery_goes_on_from_its_checkpoint(stack, run):
    name = run(small_job("killed", recovery=long_recovery(11, steps=40)))
    pod = checkpointed(stack, name)
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}"
    stack.api.delete(path, gracePeriodSeconds=0)
    second = replacement(stack, name, pod)
    found = wait_for_recovery(stack, name)
    assert (found["state"], found["attempt"]) == ("Succeeded", 1), found
    assert GOING_ON in log_of(stack, second)


def test_a_store_that_is_away_for_a_while_is_waited_for(stack, run):
    """Within a recovery, whose result needs it, and before a preflight, which says so."""
    name = run(small_job("patient", recovery=long_recovery(12, steps=80)))
    checkpointed(stack, name)
    scale(stack, 0)
    late = run(small_job("late"))
    stack.jobs.wait_for_condition(
        *(late, "ArtifactsAccessible", "False", "EndpointUnreachable"),
        timeout_seconds=PATIENCE_SECONDS,
    )
    assert stack.jobs.condition(late, "Stalled") == ("False", "NotStalled")
    scale(stack, 1)
    found = wait_for_recovery(stack, name)
    assert found["state"] == "Succeeded", found
    stack.jobs.wait_for_condition(
        *(late, "ArtifactsAccessible", "True", "ProbeSucceeded"),
        timeout_seconds=PATIENCE_SECONDS,
    )


def scale(stack, replicas):
    stack.api.request("PATCH", f"{MINIO}/scale", {"spec": {"replicas": replicas}}, content=MERGE)

    def there():
        return stack.api.get(MINIO)["status"].get("readyReplicas", 0) == replicas

    wait_for(there, f"MinIO with {replicas} pods at {ENDPOINT}", timeout_seconds=120)


def test_a_node_whose_kubelet_is_killed_gives_its_stage_back(stack, run):
    """The stage is asked to leave the node that is lost, and goes on from its checkpoint."""
    if stack.cluster.folder is None:
        pytest.skip("kills a kubelet of a cluster of its own")
    minio = stack.api.get(f"/api/v1/namespaces/{RELEASE_NAMESPACE}/pods/{RELEASE}-minio-0")
    node = next(n for n in ("node-1", "node-2") if n != minio["spec"]["nodeName"])
    kubelet = node.replace("node", "kubelet")
    template = {
        "name": "Recover",
        "nodeSelector": {"kubernetes.io/hostname": node},
        "tolerations": [{**t, "operator": "Exists", "tolerationSeconds": 1} for t in UNREACHABLE],
    }
    # Longer than it takes to miss the kubelet; how it ends is another test's.
    given = long_recovery(13, steps=200)
    name = run(small_job("left", recovery=given, stageTemplates=[template]))
    pod = checkpointed(stack, name)
    stack.cluster.stop(kubelet, "--kill")
    try:
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}"
        wait_for(
            lambda: "deletionTimestamp" in stack.api.get(path)["metadata"],
            "its pod being asked to leave",
            timeout_seconds=PATIENCE_SECONDS,
        )
        assert stack.jobs.condition(name, "Stalled") == ("False", "NotStalled")
        assert len(stack.pods(name, "recover")) == 1, "a pod that may still run holds its device"
    finally:
        stack.cluster.start(kubelet)
    second = replacement(stack, name, pod)
    wait_for(
        lambda: GOING_ON in log_of(stack, second),
        "the recovery going on",
        timeout_seconds=PATIENCE_SECONDS,
    )
    assert recover(stack, name)["attempt"] == 1
    assert stack.jobs.condition(name, "Stalled") == ("False", "NotStalled")
