"""What the operator decides, step by step, on a cluster in memory."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from operator_cluster import Crash, model_cluster
from operator_samples import GPU, SETTINGS, at, fault, node_object, report, spec

from autocompress.api import names
from autocompress.contract.errors import Reason
from autocompress.contract.stage import Outcome
from autocompress_operator.actions import Create, Delete, DeleteJob, DropFinalizer
from autocompress_operator.snapshot import Refusal, RefusalKind
from autocompress_operator.work import Work

WORKS = ("preflight", "profile", "search", "recover", "validate")


def run(coroutine):
    return asyncio.run(coroutine)


def finish(cluster, *works, settings=SETTINGS):
    for _ in works:
        run(cluster.finish_stage(settings=settings))


def reasons(cluster):
    return [notice.reason for notice in cluster.notices]


def created(cluster):
    return [a.work.value for a in cluster.performed if isinstance(a, Create)]


def test_the_four_stages_run_one_after_the_other_to_a_model():
    cluster = model_cluster()
    finish(cluster, *WORKS)
    status = cluster.job["status"]
    assert created(cluster) == list(WORKS)
    assert [stage["state"] for stage in status["stages"]] == ["Succeeded"] * 4
    assert cluster.condition("Ready") == ("True", "Succeeded")
    assert cluster.condition("Succeeded") == ("True", "Succeeded")
    assert cluster.condition("Reconciling") == ("False", "Finished")
    assert cluster.condition("Stalled") == ("False", "NotStalled")
    assert cluster.condition("BudgetMet") == ("True", "BudgetMet")
    assert cluster.condition("QualityMet") == ("True", "QualityMet")
    assert cluster.condition("ArtifactsAccessible") == ("True", "ProbeSucceeded")
    assert status["result"]["digest"] == "sha256:77"
    assert status["resolved"]["sourceRevision"] == "sha256:parent"
    assert status["resolved"]["images"] == {}
    assert status["cost"]["wallSeconds"] == 360
    assert status["cost"]["deviceHours"] == "0.1"
    assert status["budgetReport"] == [
        {
            "name": "Memory",
            "unit": "bytes",
            "limit": "25769803776",
            "predicted": "20000000000",
            "measured": "24000000000",
            "met": True,
            "utilizationPercent": 93,
        }
    ]
    assert status["quality"]["tasks"][0]["standardError"] == "0.011"
    assert status["currentStage"] == "Validate"
    assert reasons(cluster).count("StageSucceeded") == 5
    assert reasons(cluster).count("BudgetMet") == 1


def test_a_finished_job_is_left_alone():
    cluster = model_cluster()
    finish(cluster, *WORKS)
    writes, performed = cluster.status_writes, len(cluster.performed)
    cluster.pass_time(3600)
    run(cluster.settle())
    assert (cluster.status_writes, len(cluster.performed)) == (writes, performed)


def test_the_first_visit_shows_every_condition():
    cluster = model_cluster()
    run(cluster.visit())
    shown = {c["type"]: c["status"] for c in cluster.job["status"]["conditions"]}
    assert shown == {
        "Ready": "False",
        "Reconciling": "True",
        "Stalled": "False",
        "Succeeded": "Unknown",
        "Suspended": "False",
        "Admitted": "Unknown",
        "TargetAvailable": "True",
        "ArtifactsAccessible": "Unknown",
        "BudgetMet": "Unknown",
        "QualityMet": "Unknown",
    }
    assert cluster.condition("Reconciling") == ("True", "PreflightRunning")


def test_without_preflight_profile_comes_first():
    cluster = model_cluster(spec(runPolicy={"preflight": "Disabled"}))
    run(cluster.visit())
    assert created(cluster) == ["profile"]
    assert cluster.condition("ArtifactsAccessible") == ("Unknown", "PreflightDisabled")
    assert "preflight" not in cluster.job["status"]


@pytest.mark.parametrize(
    ("outcome", "reason", "budget", "quality"),
    [
        (Outcome.BUDGET_NOT_MET, "BudgetNotMet", "False", "True"),
        (Outcome.QUALITY_NOT_MET, "QualityNotMet", "True", "False"),
    ],
)
def test_a_missed_verdict_is_a_result_that_needs_a_person(outcome, reason, budget, quality):
    cluster = model_cluster()
    finish(cluster, *WORKS[:-1])
    run(cluster.finish_stage(0, report("validate", outcome)))
    assert cluster.condition("Succeeded") == ("False", reason)
    assert cluster.condition("Stalled") == ("True", reason)
    assert cluster.condition("Ready") == ("False", reason)
    assert cluster.condition("BudgetMet")[0] == budget
    assert cluster.condition("QualityMet")[0] == quality
    assert cluster.job["status"]["budgetReport"]
    assert "result" not in cluster.job["status"]


def test_a_parent_that_meets_the_budget_ends_the_job_without_a_model():
    cluster = model_cluster()
    finish(cluster, "preflight")
    run(cluster.finish_stage(0, report("profile", Outcome.BUDGET_ALREADY_MET)))
    for type_, status in (("Succeeded", "True"), ("Ready", "False"), ("Stalled", "True")):
        assert cluster.condition(type_) == (status, "BudgetAlreadyMet")
    assert created(cluster) == ["preflight", "profile"]


@pytest.mark.parametrize(
    ("code", "reason", "in_condition"),
    [
        (64, Reason.INVALID_SPEC, "InvalidSpec"),
        (64, Reason.ENGINE_CHECK_FAILED, "StageFailed"),
        (65, Reason.BAD_DATA, "StageFailed"),
        (77, Reason.BUCKET_NOT_FOUND, "StageFailed"),
        (78, Reason.BUDGET_INFEASIBLE, "BudgetInfeasible"),
    ],
)
def test_a_final_failure_ends_the_job_at_once(code, reason, in_condition):
    cluster = model_cluster()
    finish(cluster, "preflight")
    run(cluster.finish_stage(code, fault("profile", reason)))
    assert cluster.condition("Succeeded") == ("False", in_condition)
    assert cluster.condition("Stalled") == ("True", in_condition)
    failure = cluster.stages["Profile"]["lastFailure"]
    assert (failure["reason"], failure["exitCode"]) == (reason.value, code)
    assert failure["message"] == "spec.source.uri: is no model; give one"


@pytest.mark.parametrize(
    ("code", "reason", "in_condition", "accessible"),
    [
        (64, Reason.INVALID_SPEC, "InvalidSpec", ("Unknown", "Pending")),
        (65, Reason.BAD_DATA, "InvalidSpec", ("Unknown", "Pending")),
        (77, Reason.CREDENTIALS_INVALID, "PreflightFailed", ("False", "CredentialsInvalid")),
        (77, Reason.BUCKET_NOT_FOUND, "PreflightFailed", ("False", "BucketNotFound")),
    ],
)
def test_a_preflight_that_fails_spends_no_gpu_time(code, reason, in_condition, accessible):
    cluster = model_cluster()
    run(cluster.finish_stage(code, fault("preflight", reason)))
    assert cluster.condition("Succeeded") == ("False", in_condition)
    assert cluster.condition("ArtifactsAccessible") == accessible
    assert created(cluster) == ["preflight"]


def test_storage_that_does_not_answer_is_asked_again():
    cluster = model_cluster(spec(runPolicy={"backoffLimit": 0}))
    message = fault("preflight", Reason.ENDPOINT_UNREACHABLE, "http://minio:9000: no answer")
    run(cluster.finish_stage(69, message))
    assert cluster.condition("ArtifactsAccessible") == ("False", "EndpointUnreachable")
    assert cluster.condition("Reconciling") == ("True", "EndpointUnreachable")
    assert cluster.condition("Succeeded")[0] == "Unknown"
    assert run(cluster.visit()) == timedelta(seconds=30)
    cluster.pass_time(30)
    run(cluster.visit())
    assert created(cluster) == ["preflight", "preflight"]
    assert cluster.job["status"]["preflight"]["attempt"] == 2
    run(cluster.finish_stage())
    assert cluster.condition("ArtifactsAccessible") == ("True", "ProbeSucceeded")
    assert created(cluster)[-1] == "profile"


def test_a_kill_for_memory_is_tried_once_more_and_then_told():
    cluster = model_cluster(spec(runPolicy={"backoffLimit": 6}))
    finish(cluster, "preflight")
    run(cluster.finish_stage(137))
    assert cluster.stages["Profile"]["state"] in ("Pending", "Running")
    assert cluster.stages["Profile"]["lastFailure"]["reason"] == "OOMKilled"
    run(cluster.finish_stage(137))
    assert cluster.condition("Succeeded") == ("False", "StageFailed")
    assert "memory" in cluster.stages["Profile"]["lastFailure"]["message"]
    assert cluster.live() == []


def test_nothing_is_final_while_something_runs():
    cluster = model_cluster(spec(runPolicy={"activeDeadlineSeconds": 60}))
    finish(cluster, "preflight")
    cluster.start_pods()
    cluster.pass_time(60)
    run(cluster.visit())
    assert cluster.stages["Profile"]["state"] == "Failed"
    assert cluster.condition("Succeeded")[0] == "Unknown"
    assert not any(isinstance(action, Delete) for action in cluster.performed)
    run(cluster.visit())
    assert any(isinstance(action, Delete) for action in cluster.performed)
    assert cluster.condition("Reconciling") == ("True", "Stopping")
    run(cluster.visit())
    assert cluster.condition("Succeeded")[0] == "Unknown"
    cluster.run_controller()
    run(cluster.visit())
    assert cluster.condition("Succeeded") == ("False", "DeadlineExceeded")
    assert cluster.condition("Stalled") == ("True", "DeadlineExceeded")


def test_the_deadline_is_a_reason_to_look_again():
    cluster = model_cluster(spec(runPolicy={"activeDeadlineSeconds": 60}))
    assert run(cluster.visit()) == timedelta(seconds=60)
    cluster.pass_time(45)
    assert run(cluster.visit()) == timedelta(seconds=15)


def test_suspend_keeps_the_job_and_resume_goes_on_with_a_new_clock():
    cluster = model_cluster(spec(runPolicy={"activeDeadlineSeconds": 600}))
    finish(cluster, "preflight")
    cluster.start_pods()
    cluster.user_patches(suspend=True)
    run(cluster.visit())
    assert cluster.condition("Suspended") == ("False", "NotSuspended")
    assert cluster.condition("Reconciling") == ("True", "Stopping")
    run(cluster.settle())
    assert cluster.condition("Suspended") == ("True", "SuspendedBySpec")
    assert cluster.condition("Reconciling") == ("False", "SuspendedBySpec")
    assert cluster.condition("Ready") == ("False", "SuspendedBySpec")
    assert len(cluster.live("profile")) == 1
    cluster.pass_time(5000)
    run(cluster.settle())
    assert cluster.condition("Suspended")[0] == "True"
    cluster.user_patches(suspend=False)
    run(cluster.settle())
    assert cluster.condition("Suspended") == ("False", "NotSuspended")
    assert cluster.status.start_time == cluster.now
    assert created(cluster) == ["preflight", "profile"]
    finish(cluster, *WORKS[1:])
    assert cluster.condition("Ready")[0] == "True"
    assert [r for r in reasons(cluster) if r in ("Suspended", "Resumed")] == [
        "Suspended",
        "Resumed",
    ]


def test_a_queued_child_is_deleted_to_suspend_it():
    labels = {names.KUEUE_LABELS[0]: "gpus"}
    cluster = model_cluster(labels=labels)
    finish(cluster, "preflight")
    cluster.user_patches(suspend=True)
    run(cluster.settle())
    assert cluster.live() == []
    assert cluster.condition("Suspended") == ("True", "SuspendedBySpec")
    cluster.user_patches(suspend=False)
    run(cluster.settle())
    assert created(cluster) == ["preflight", "profile", "profile"]
    names_ = {a.name for a in cluster.performed if isinstance(a, Create) and a.work == "profile"}
    assert len(names_) == 1


def test_a_job_that_is_created_suspended_starts_nothing():
    cluster = model_cluster(spec(suspend=True))
    run(cluster.settle())
    assert created(cluster) == []
    assert cluster.condition("Suspended") == ("True", "SuspendedBySpec")
    assert cluster.status.start_time is None


def test_a_retry_makes_one_more_attempt_at_what_failed():
    cluster = model_cluster()
    finish(cluster, "preflight", "profile")
    run(cluster.finish_stage(77, fault("search", Reason.CREDENTIALS_INVALID)))
    assert cluster.condition("Stalled")[0] == "True"
    cluster.pass_time(100)
    cluster.user_retries("once")
    run(cluster.settle())
    assert cluster.status.last_handled_retry_at == "once"
    assert cluster.stages["Search"]["attempt"] == 2
    assert cluster.condition("Stalled") == ("False", "NotStalled")
    assert created(cluster) == ["preflight", "profile", "search", "search"]
    finish(cluster, "search", "recover", "validate")
    assert cluster.condition("Ready")[0] == "True"
    run(cluster.settle())
    assert created(cluster).count("search") == 2


def test_a_retry_after_bad_data_runs_again_what_made_the_data():
    cluster = model_cluster()
    finish(cluster, "preflight", "profile", "search")
    run(cluster.finish_stage(65, fault("recover", Reason.BAD_DATA)))
    cluster.user_retries("once")
    run(cluster.settle())
    assert created(cluster)[-1] == "profile"
    assert cluster.stages["Profile"]["attempt"] == 2
    assert cluster.stages["Validate"]["attempt"] == 1
    finish(cluster, "profile", "search", "recover", "validate")
    assert cluster.condition("Ready")[0] == "True"


def test_a_retry_of_a_job_that_runs_changes_nothing():
    cluster = model_cluster()
    finish(cluster, "preflight")
    cluster.user_retries("early")
    run(cluster.settle())
    assert cluster.status.last_handled_retry_at == "early"
    assert cluster.stages["Profile"]["attempt"] == 1


def test_a_child_that_a_person_deletes_is_created_again_under_its_name():
    cluster = model_cluster()
    finish(cluster, "preflight")
    cluster.start_pods()
    run(cluster.visit())
    cluster.user_deletes_child()
    run(cluster.settle())
    profile = [a for a in cluster.performed if isinstance(a, Create) and a.work is Work.PROFILE]
    assert len(profile) == 2
    assert profile[0].name == profile[1].name
    assert len(cluster.live("profile")) == 1


def test_a_result_whose_pod_is_gone_is_made_again():
    cluster = model_cluster()
    finish(cluster, "preflight")
    cluster.start_pods()
    cluster.end_pod(0)
    cluster.lose_ended_pods()
    run(cluster.settle())
    assert run(cluster.visit()) == timedelta(seconds=30)
    cluster.pass_time(30)
    run(cluster.settle())
    assert cluster.stages["Profile"]["attempt"] == 2
    assert created(cluster) == ["preflight", "profile", "profile"]


def test_an_image_that_cannot_be_pulled_gives_its_gpu_back():
    cluster = model_cluster()
    finish(cluster, "preflight")
    cluster.hold_pods("ImagePullBackOff", 'Back-off pulling image "registry/none:1"')
    wait = run(cluster.visit())
    assert wait == timedelta(seconds=300)
    assert cluster.condition("Reconciling") == ("True", "ImagePullError")
    cluster.pass_time(300)
    run(cluster.settle())
    assert cluster.live() == []
    assert cluster.stages["Profile"]["lastFailure"]["reason"] == "ImagePullError"
    assert "registry/none:1" in cluster.stages["Profile"]["lastFailure"]["message"]
    assert cluster.condition("Stalled") == ("True", "StageFailed")


def test_an_invalid_spec_is_told_and_nothing_runs():
    cluster = model_cluster(spec(search={"steps": 10, "stepTokens": 100, "sequenceTokens": 64}))
    run(cluster.settle())
    assert created(cluster) == []
    for type_, status in (("Succeeded", "False"), ("Stalled", "True"), ("Ready", "False")):
        assert cluster.condition(type_) == (status, "InvalidSpec")
    message = next(
        c["message"] for c in cluster.job["status"]["conditions"] if c["type"] == "Stalled"
    )
    assert "spec.search.stepTokens" in message


def test_a_cluster_without_the_recovery_engine_says_so_before_anything_runs():
    cluster = model_cluster(spec(recovery={"engine": "JobSet", "nodes": 2}))
    run(cluster.settle())
    assert created(cluster) == []
    assert cluster.condition("Stalled") == ("True", "EngineNotInstalled")
    assert "jobset.x-k8s.io" in cluster.stages["Recover"]["lastFailure"]["message"]


def test_no_matching_node_is_told_and_waited_for():
    cluster = model_cluster(spec(GPU))
    cluster.nodes = [node_object("a", gpu_product="NVIDIA-A100")]
    run(cluster.settle())
    assert cluster.condition("TargetAvailable") == ("False", "NoMatchingNode")
    assert cluster.condition("Stalled")[0] == "False"
    cluster.nodes.append(node_object("b", gpu_product="NVIDIA-L40S", gpu_memory="46068"))
    run(cluster.settle())
    assert cluster.condition("TargetAvailable") == ("True", "NodeFound")


def test_a_refused_job_is_a_condition_and_is_tried_again():
    cluster = model_cluster()
    cluster.refuse[Work.PREFLIGHT] = Refusal(
        kind=RefusalKind.QUOTA,
        message='jobs.batch "x" is forbidden: exceeded quota: few, requested: count/jobs.batch=1, '
        "used: count/jobs.batch=3, limited: count/jobs.batch=3",
    )
    assert run(cluster.visit()) == timedelta(seconds=30)
    assert cluster.condition("Admitted") == ("False", "QuotaExceeded")
    assert cluster.condition("Reconciling") == ("True", "QuotaExceeded")
    del cluster.refuse[Work.PREFLIGHT]
    run(cluster.settle())
    assert len(cluster.live("preflight")) == 1


def test_a_manifest_that_is_not_valid_ends_the_job():
    cluster = model_cluster()
    cluster.refuse[Work.PREFLIGHT] = Refusal(
        kind=RefusalKind.INVALID,
        message='Job.batch "x" is invalid: spec.template.spec.containers[0].image: Required value',
    )
    run(cluster.settle())
    assert cluster.condition("Succeeded") == ("False", "PreflightFailed")
    failure = cluster.job["status"]["preflight"]["lastFailure"]
    assert failure["reason"] == "CreateFailed"


def test_the_time_to_live_takes_a_finished_job_away():
    cluster = model_cluster(spec(runPolicy={"ttlSecondsAfterFinished": 100}))
    finish(cluster, *WORKS)
    assert run(cluster.visit()) == timedelta(seconds=100)
    cluster.pass_time(100)
    run(cluster.visit())
    assert isinstance(cluster.performed[-1], DeleteJob)
    assert cluster.job is None


def test_without_deletion_policy_nothing_holds_the_job():
    cluster = model_cluster()
    finish(cluster, "preflight")
    assert not cluster.job["metadata"].get("finalizers")
    cluster.user_deletes()
    assert cluster.job is None
    assert run(cluster.visit()) is None


def delete_policy():
    found = spec()
    found["artifacts"]["deletionPolicy"] = "Delete"
    return found


def test_deletion_ends_stages_then_cleans_up_then_lets_go():
    cluster = model_cluster(delete_policy())
    finish(cluster, "preflight")
    cluster.start_pods()
    assert cluster.job["metadata"]["finalizers"] == [names.FINALIZER]
    cluster.user_deletes()
    run(cluster.visit())
    assert created(cluster)[-1] == "profile"
    cluster.run_controller()
    run(cluster.visit())
    assert created(cluster)[-1] == "cleanup"
    cleanup = cluster.live("cleanup")[0]
    assert "ownerReferences" not in cleanup["metadata"]
    cluster.run_controller()
    cluster.start_pods()
    cluster.end_pod(0)
    run(cluster.visit())
    assert cluster.job is None


def test_a_cleanup_that_fails_is_given_up_with_a_warning():
    cluster = model_cluster(delete_policy())
    finish(cluster, *WORKS)
    cluster.user_deletes()
    run(cluster.visit())
    cluster.run_controller()
    cluster.start_pods()
    cluster.end_pod(77)
    run(cluster.visit())
    assert cluster.job is None
    assert reasons(cluster)[-1] == "CleanupAbandoned"


def test_a_cleanup_that_never_starts_is_given_up_in_the_end():
    cluster = model_cluster(delete_policy())
    run(cluster.settle())
    cluster.user_deletes()
    for _ in range(3):
        run(cluster.visit())
        cluster.run_controller()
    cluster.pass_time(SETTINGS.cleanup_seconds)
    run(cluster.visit())
    assert isinstance(cluster.performed[-1], DropFinalizer)
    assert cluster.job is None


def test_a_namespace_that_goes_is_not_held_up():
    cluster = model_cluster(delete_policy())
    finish(cluster, *WORKS)
    cluster.refuse[Work.CLEANUP] = Refusal(
        kind=RefusalKind.NAMESPACE_TERMINATING, message="namespace team-a is being terminated"
    )
    cluster.user_deletes()
    run(cluster.visit())
    assert cluster.job is None


def test_a_policy_that_is_changed_back_lets_the_finalizer_go():
    cluster = model_cluster(delete_policy())
    run(cluster.settle())
    cluster.user_patches(artifacts=spec()["artifacts"])
    run(cluster.settle())
    assert cluster.job["metadata"]["finalizers"] == []


def test_an_operator_killed_after_create_finds_what_it_created():
    cluster = model_cluster()
    cluster.steps_left = 2
    with pytest.raises(Crash):
        run(cluster.visit())
    assert len(cluster.live("preflight")) == 1
    assert cluster.job["status"] == {}
    cluster.steps_left = None
    run(cluster.visit())
    assert len(cluster.live("preflight")) == 1
    assert cluster.status.preflight.job_ref.name == cluster.live()[0]["metadata"]["name"]


def test_conditions_move_their_time_with_their_status_only():
    cluster = model_cluster()
    finish(cluster, "preflight")
    before = {c["type"]: c for c in cluster.job["status"]["conditions"]}
    cluster.pass_time(50)
    finish(cluster, *WORKS[1:])
    after = {c["type"]: c for c in cluster.job["status"]["conditions"]}
    for type_, condition in after.items():
        moved = condition["status"] != before[type_]["status"]
        same = condition["lastTransitionTime"] == before[type_]["lastTransitionTime"]
        assert moved != same, type_
    assert after["Ready"]["lastTransitionTime"] == "2026-12-01T08:00:50Z"
    assert at(50) == cluster.now


def test_progress_of_the_running_pod_is_shown():
    cluster = model_cluster()
    finish(cluster, "preflight")
    cluster.start_pods()
    from autocompress.api.v1alpha1.status import Progress
    from autocompress_operator.plan import plan

    snapshot = run(cluster.observe(None))
    seen = {pod.uid: Progress(percent=40, estimated_remaining_seconds=18) for pod in snapshot.pods}
    decided = plan(replace(snapshot, progress=seen), cluster.now, SETTINGS)
    stage = next(s for s in decided.status.stages if s.name == "Profile")
    assert (stage.progress.percent, stage.progress.estimated_remaining_seconds) == (40, 18)
