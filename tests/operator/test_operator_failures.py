"""From evidence to reasons: one row for each thing that goes wrong with a pod, a Job or a node."""

from datetime import timedelta

import pytest
from operator_samples import (
    at,
    child_object,
    complete,
    condition,
    ended,
    event_object,
    fault,
    gave_up,
    job_object,
    pod_object,
    report,
    running,
    waiting,
)

from autocompress.api.v1alpha1.status import FailureReason
from autocompress.contract.errors import ExitCode, Reason
from autocompress_operator.failures import pod_failure
from autocompress_operator.messages import REMEDIES, create_failure, scheduler_words
from autocompress_operator.observation import (
    Completed,
    Failed,
    Halted,
    Lost,
    Pending,
    Retrying,
    Running,
    observe,
)
from autocompress_operator.reading import (
    read_child,
    read_event,
    read_job_object,
    read_pod,
)
from autocompress_operator.snapshot import ChildKind, Snapshot
from autocompress_operator.work import Work

GRACE = timedelta(seconds=300)


def look(child=None, pods=(), events=(), *, now=None, kind="Job"):
    """How an attempt at profile stands."""
    snapshot = Snapshot(
        job=read_job_object(job_object()),
        children=(read_child(ChildKind(kind), child or child_object("profile", kind=kind)),),
        pods=tuple(map(read_pod, pods)),
        events=tuple(map(read_event, events)),
    )
    seen = snapshot.children[0]
    return observe(
        seen,
        snapshot.pods_of(seen),
        snapshot.events_of(seen),
        now=now or at(10),
        start_grace=GRACE,
    )


def failed_pod(code, left="", **fields):
    return pod_object("profile", phase="Failed", state=ended(code, left), **fields)


def disruption(reason, message=""):
    return condition("DisruptionTarget", reason=reason, message=message)


@pytest.mark.parametrize(
    ("pod", "reason", "words"),
    [
        (
            failed_pod(64, fault("profile", Reason.INVALID_SPEC, "spec.x: give y")),
            "InvalidSpec",
            "spec.x: give y",
        ),
        (
            failed_pod(64, fault("profile", Reason.ENGINE_CHECK_FAILED, "no")),
            "EngineCheckFailed",
            "no",
        ),
        (failed_pod(64), "InvalidSpec", "exit code 64"),
        (failed_pod(65), "BadData", "exit code 65"),
        (failed_pod(69), "EndpointUnreachable", "network policies"),
        (
            failed_pod(70, fault("profile", Reason.ENGINE_FAILED, "vLLM said: x")),
            "EngineFailed",
            "vLLM said: x",
        ),
        (failed_pod(70, "Traceback\nValueError: 7"), "InternalError", "ValueError: 7"),
        (failed_pod(74), "DiskFull", "ephemeral-storage"),
        (failed_pod(75), "ConditionsUnstable", "exit code 75"),
        (failed_pod(77, fault("profile", Reason.BUCKET_NOT_FOUND, "b")), "BucketNotFound", "b"),
        (failed_pod(77), "CredentialsInvalid", "credentialsSecretRef"),
        (failed_pod(78), "BudgetInfeasible", "Relax the budget"),
        (failed_pod(137), "OOMKilled", "killed on node node-1"),
        (failed_pod(1, "boom"), "ContainerCrashed", "boom"),
        (
            pod_object(
                "profile", phase="Failed", state=ended(128, "no such file", reason="StartError")
            ),
            "ContainerStartError",
            "no such file",
        ),
        (
            failed_pod(137, conditions=[disruption("EvictionByEvictionAPI")]),
            "Evicted",
            "checkpoint",
        ),
        (
            failed_pod(137, conditions=[disruption("PreemptionByScheduler")]),
            "Preempted",
            "priority class",
        ),
        (
            failed_pod(143, conditions=[disruption("DeletionByTaintManager")]),
            "NodeLost",
            "another node",
        ),
        (failed_pod(143, conditions=[disruption("DeletionByPodGC")]), "NodeLost", "another node"),
        (
            failed_pod(137, reason="Evicted", message="The node was low on resource: memory."),
            "NodeMemoryPressure",
            "memory requests",
        ),
        (
            failed_pod(
                137, reason="Evicted", message="The node was low on resource: ephemeral-storage."
            ),
            "NodeDiskPressure",
            "disk",
        ),
        (
            failed_pod(
                143,
                conditions=[
                    disruption(
                        "TerminationByKubelet",
                        "Pod was terminated in response to imminent node shutdown.",
                    )
                ],
            ),
            "NodeLost",
            "node shutdown",
        ),
        (failed_pod(137, reason="Evicted", message="Usage exceeds the limit"), "Evicted", "Usage"),
        (
            pod_object(
                "profile", phase="Failed", reason="UnexpectedAdmissionError", message="no device"
            ),
            "Unschedulable",
            "did not take the pod",
        ),
        (pod_object("profile", phase="Failed", reason="NodeShutdown"), "NodeLost", "node-1"),
    ],
)
def test_a_failed_pod_has_a_reason_and_a_remedy(pod, reason, words):
    failure = pod_failure(Work.PROFILE, read_pod(pod))
    assert failure.reason == reason
    assert words in failure.message
    assert failure.pod == "small-profile-pod"


@pytest.mark.parametrize(
    "pod",
    [
        failed_pod(143),
        failed_pod(143, fault("profile", Reason.STOPPED, "asked to stop")),
        failed_pod(137, deleted=at(5)),
        pod_object("profile", phase="Succeeded", state=ended(0)),
        pod_object("profile", phase="Running", state=running()),
        pod_object("profile"),
    ],
)
def test_a_pod_that_was_asked_to_stop_has_not_failed(pod):
    assert pod_failure(Work.PROFILE, read_pod(pod)) is None


def test_every_reason_has_a_remedy():
    without = {FailureReason.NO_MATCHING_NODE, FailureReason.MIG_MISMATCH}
    assert set(REMEDIES) == set(FailureReason) - without


@pytest.mark.parametrize("code", [code for code in ExitCode if code not in (0, 143)])
def test_every_exit_code_of_the_contract_has_its_reason(code):
    failure = pod_failure(Work.PROFILE, read_pod(failed_pod(code)))
    assert failure.reason is not FailureReason.CONTAINER_CRASHED


@pytest.mark.parametrize(
    ("state", "reason", "words"),
    [
        (waiting("ErrImagePull", "not found"), "ImagePullError", "not found"),
        (waiting("ImagePullBackOff", "Back-off pulling image x"), "ImagePullError", "image x"),
        (waiting("InvalidImageName"), "ImagePullError", "InvalidImageName"),
        (waiting("ErrImageNeverPull"), "ImagePullError", "ErrImageNeverPull"),
        (
            waiting("CreateContainerConfigError", 'secret "s3" not found'),
            "CredentialsMissing",
            "s3",
        ),
        (
            waiting(
                "CreateContainerConfigError", "couldn't find key AWS_ACCESS_KEY_ID in Secret a/s3"
            ),
            "CredentialsMissing",
            "AWS_ACCESS_KEY_ID",
        ),
        (
            waiting(
                "CreateContainerConfigError",
                "container has runAsNonRoot and image will run as root",
            ),
            "ContainerStartError",
            "root",
        ),
        (waiting("CreateContainerError", "no command"), "ContainerStartError", "no command"),
    ],
)
def test_a_container_that_cannot_start_has_a_grace_and_then_fails(state, reason, words):
    pods = [pod_object("profile", state=state)]
    early = look(pods=pods, now=at(299))
    assert isinstance(early, Pending)
    assert (early.reason, early.until) == (reason, at(300))
    late = look(pods=pods, now=at(300))
    assert isinstance(late, Failed)
    assert late.failure.reason == reason
    assert words in late.failure.message


def test_the_grace_counts_from_when_a_node_was_found():
    pod = pod_object(
        "profile",
        state=waiting("ErrImagePull"),
        conditions=[condition("PodScheduled", time=at(1000))],
    )
    assert look(pods=[pod], now=at(1200)).until == at(1300)


def test_no_node_is_waited_for_without_end():
    unscheduled = condition(
        "PodScheduled",
        status="False",
        reason="Unschedulable",
        message="0/14 nodes are available: 3 Insufficient nvidia.com/gpu, "
        "11 node(s) didn't match Pod's node affinity/selector. preemption: 0/14 nodes are ...",
    )
    seen = look(pods=[pod_object("profile", conditions=[unscheduled], node=None)], now=at(90_000))
    assert isinstance(seen, Pending)
    assert seen.reason == "Unschedulable"
    assert seen.until is None
    assert "14" not in seen.message


def test_the_schedulers_words_do_not_change_with_the_counts():
    one = "0/14 nodes are available: 3 Insufficient cpu, 11 node(s) had untolerated taint {a: b}."
    other = "0/20 nodes are available: 19 node(s) had untolerated taint {a: b}, 1 Insufficient cpu."
    assert scheduler_words(one) == scheduler_words(other)
    assert scheduler_words("no nodes available to schedule pods") == "the scheduler found no node"


QUOTA = (
    'Error creating: pods "small-profile-00000001-x7" is forbidden: exceeded quota: gpus, '
    "requested: requests.nvidia.com/gpu=1, used: requests.nvidia.com/gpu=0, "
    "limited: requests.nvidia.com/gpu=0"
)
SECURITY = (
    'Error creating: pods "small-profile-00000001-x7" is forbidden: violates PodSecurity '
    '"restricted:latest": unrestricted capabilities (container "stage" must set ...)'
)
ACCOUNT = (
    'Error creating: pods "small-profile-00000001-" is forbidden: error looking up service account '
    'team-a/none: serviceaccount "none" not found'
)


@pytest.mark.parametrize(
    ("text", "reason", "words"),
    [
        (QUOTA, "QuotaExceeded", "requested requests.nvidia.com/gpu=1, limited to"),
        ("pods is forbidden: exceeded quota: a", "QuotaExceeded", "exceeded quota"),
        (SECURITY, "PodSecurityViolation", "unrestricted capabilities"),
        (ACCOUNT, "CreateFailed", 'serviceaccount "none" not found'),
    ],
)
def test_a_refusal_is_told_without_what_varies(text, reason, words):
    found, message = create_failure(text)
    assert found == reason
    assert words in message
    assert "x7" not in message


def test_quota_is_waited_for():
    seen = look(events=[event_object(QUOTA)], now=at(90_000))
    assert isinstance(seen, Pending)
    assert (seen.reason, seen.until) == ("QuotaExceeded", None)


def test_a_pod_that_pod_security_refuses_fails_at_once():
    seen = look(events=[event_object(SECURITY)], now=at(1))
    assert isinstance(seen, Failed)
    assert seen.failure.reason == "PodSecurityViolation"
    assert "stage's template" in seen.failure.message


def test_another_refusal_has_a_grace():
    assert look(events=[event_object(ACCOUNT)], now=at(10)).until == at(300)
    assert isinstance(look(events=[event_object(ACCOUNT)], now=at(300)), Failed)


def test_a_refusal_of_before_the_pod_is_over():
    pods = [pod_object("profile", created=at(5), phase="Running", state=running(at(6)))]
    assert isinstance(look(pods=pods, events=[event_object(SECURITY, seen=at(2))]), Running)


def test_a_refusal_of_another_child_is_not_of_this_one():
    other = event_object(SECURITY, job="small-search-00000001")
    assert look(events=[other]).reason == "StagePending"


def test_one_kill_for_memory_is_tried_again_and_the_second_is_not():
    first = pod_object("profile", name="a", phase="Failed", state=ended(137), created=at(1))
    second = pod_object("profile", name="b", phase="Failed", state=ended(137), created=at(2))
    assert isinstance(look(pods=[first]), Retrying)
    seen = look(pods=[first, second])
    assert isinstance(seen, Failed)
    assert (seen.failure.reason, seen.failure.pod) == ("OOMKilled", "b")


def test_kills_of_two_nodes_of_one_try_count_once():
    pods = [
        pod_object("profile", name=f"n{i}", phase="Failed", state=ended(137), index=i)
        for i in range(2)
    ]
    assert isinstance(look(pods=pods), Retrying)


@pytest.mark.parametrize("kind", ["JobSet", "TrainJob"])
def test_a_final_code_ends_what_would_restart(kind):
    seen = look(pods=[failed_pod(65)], kind=kind)
    assert isinstance(seen, Failed)
    assert seen.failure.reason == "BadData"


def test_a_final_code_of_a_job_is_left_to_its_own_policy_and_not_told_as_a_retry():
    seen = look(pods=[failed_pod(65)])
    assert isinstance(seen, Pending)
    assert "failed for good" in seen.message


def test_a_job_past_its_deadline_says_so():
    child = child_object("profile", conditions=[gave_up("DeadlineExceeded")])
    assert look(child).failure.reason == "DeadlineExceeded"


def test_a_job_that_gave_up_tells_the_failure_that_says_most():
    child = child_object("profile", conditions=[gave_up()])
    pods = [
        pod_object("profile", name="a", phase="Failed", state=ended(78), created=at(1)),
        pod_object("profile", name="b", phase="Failed", state=ended(1), created=at(2)),
    ]
    assert look(child, pods).failure.reason == "BudgetInfeasible"


def test_without_pods_the_jobs_own_words_are_told():
    words = "Container stage failed with exit code 77 matching FailJob rule at index 2"
    child = child_object("profile", conditions=[gave_up("PodFailurePolicy", words)])
    failure = look(child).failure
    assert (failure.reason, failure.exit_code) == ("CredentialsInvalid", 77)
    child = child_object("profile", conditions=[gave_up("BackoffLimitExceeded", "limit reached")])
    assert look(child).failure.reason == "ContainerCrashed"


def test_a_result_is_read_from_the_first_node_that_has_one():
    child = child_object("recover", conditions=[complete(at(9))])
    pods = [
        pod_object("recover", name="b", phase="Succeeded", state=ended(0, ""), index=1),
        pod_object(
            "recover", name="a", phase="Succeeded", state=ended(0, report("recover")), index=0
        ),
    ]
    seen = look(child, pods)
    assert isinstance(seen, Completed)
    assert (seen.pod.name, seen.report.output_digest) == ("a", "sha256:out-recover")
    assert seen.finished == at(9)


@pytest.mark.parametrize("message", ["", "all is well", report("search"), "{}"])
def test_a_result_that_cannot_be_read_is_a_fault_of_ours(message):
    child = child_object("profile", conditions=[complete()])
    seen = look(child, [pod_object("profile", phase="Succeeded", state=ended(0, message))])
    assert isinstance(seen, Failed)
    assert (seen.failure.reason, seen.failure.exit_code) == ("InternalError", 0)


def test_a_result_without_its_pod_is_lost():
    assert look(child_object("profile", conditions=[complete(at(3))])) == Lost(finished=at(3))


def test_pods_of_an_earlier_child_of_the_name_do_not_count():
    child = child_object("profile", created=at(100))
    old = pod_object("profile", phase="Running", state=running(), created=at(50))
    assert isinstance(look(child, [old]), Pending)


def test_a_suspended_child_is_halted_once_its_pods_are_gone():
    child = child_object("profile", suspend=True, active=1)
    assert isinstance(look(child), Pending)
    assert look(child_object("profile", suspend=True)) == Halted()


def test_a_running_pod_keeps_the_failure_of_the_try_before():
    pods = [
        pod_object("profile", name="a", phase="Failed", state=ended(70)),
        pod_object("profile", name="b", phase="Running", state=running(), created=at(5)),
    ]
    seen = look(pods=pods)
    assert isinstance(seen, Running)
    assert seen.failure.reason == "InternalError"
