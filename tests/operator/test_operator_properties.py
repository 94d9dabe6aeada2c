"""What holds whatever happens in between: lag, kills, faults and people, in any order."""

import asyncio
from datetime import timedelta

from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from operator_cluster import Crash, model_cluster
from operator_samples import SETTINGS, fault, report, spec

from autocompress.api import names
from autocompress.contract.errors import Reason
from autocompress.contract.stage import Outcome
from autocompress_operator.plan import plan
from autocompress_operator.reading import read_job_object
from autocompress_operator.reconcile import StaleError
from autocompress_operator.work import STAGES, Work

FINAL = ("True", "False")
FAULTS = {
    64: Reason.INVALID_SPEC,
    65: Reason.BAD_DATA,
    69: Reason.ENDPOINT_UNREACHABLE,
    70: Reason.ENGINE_FAILED,
    74: Reason.DISK_FULL,
    75: Reason.CONDITIONS_UNSTABLE,
    77: Reason.CREDENTIALS_INVALID,
    78: Reason.BUDGET_INFEASIBLE,
}


class AnyOrder(RuleBasedStateMachine):
    """One job in a cluster in which anything may happen between two visits of the operator."""

    @initialize(
        queued=st.booleans(),
        deadline=st.sampled_from([None, 500]),
        backoff=st.integers(0, 2),
        deletion=st.sampled_from(["Retain", "Delete"]),
    )
    def begin(self, queued, deadline, backoff, deletion):
        policy = {"backoffLimit": backoff}
        if deadline:
            policy["activeDeadlineSeconds"] = deadline
        made = spec(runPolicy=policy)
        made["artifacts"]["deletionPolicy"] = deletion
        labels = {names.KUEUE_LABELS[0]: "gpus"} if queued else {}
        self.cluster = model_cluster(made, labels=labels)
        self.tokens = 0
        self.known = {}

    def visit(self):
        try:
            return asyncio.run(self.cluster.visit())
        except Crash:
            return None

    @rule(job=st.integers(0, 4), children=st.integers(0, 4), pods=st.integers(0, 4))
    def operator_visits_with_lag(self, job, children, pods):
        self.cluster.lag = {"job": job, "children": children, "pods": pods}
        self.visit()
        self.cluster.lag = {}

    @rule(steps=st.integers(0, 6))
    def operator_is_killed_during_a_visit(self, steps):
        self.cluster.steps_left = steps
        self.visit()
        self.cluster.steps_left = None

    @rule()
    def operator_visits(self):
        self.visit()

    @rule()
    def controller_works(self):
        self.cluster.run_controller()

    @rule()
    def pods_start(self):
        self.cluster.start_pods()

    @rule(
        lag=st.integers(0, 4),
        codes=st.lists(st.sampled_from([0] * 9 + [1, 137, 143, *FAULTS]), min_size=1, max_size=6),
    )
    def whole_tries(self, lag, codes):
        """What usually happens, so that jobs get far enough for the rest to matter."""
        for code in codes:
            self.operator_visits_with_lag(lag, 0, lag)
            self.visit()
            self.cluster.run_controller()
            self.cluster.start_pods()
            if code:
                self.pod_fails(code)
            else:
                self.cluster.end_pod(0)

    @rule(codes=st.lists(st.sampled_from([0, 0, 1, 64, 69, 78]), min_size=1, max_size=6))
    def more_tries(self, codes):
        self.whole_tries(0, codes)

    @rule(outcome=st.sampled_from([Outcome.DONE] * 6 + list(Outcome)))
    def pod_is_done(self, outcome):
        running = [p for p in self.cluster.pods.values() if p["status"]["phase"] == "Running"]
        if running:
            work = running[0]["metadata"]["labels"][names.LABEL_STAGE]
            allowed = {
                Work.PROFILE: (Outcome.DONE, Outcome.BUDGET_ALREADY_MET),
                Work.VALIDATE: (Outcome.DONE, Outcome.BUDGET_NOT_MET, Outcome.QUALITY_NOT_MET),
            }.get(Work(work), (Outcome.DONE,))
            self.cluster.end_pod(0, report(work, outcome if outcome in allowed else Outcome.DONE))

    @rule(code=st.sampled_from([1, 137, 143, *FAULTS]))
    def pod_fails(self, code):
        self.cluster.end_pod(code, fault("profile", FAULTS[code]) if code in FAULTS else "")

    @rule()
    def pod_is_evicted(self):
        self.cluster.end_pod(137, disruption="EvictionByEvictionAPI")

    @rule()
    def pod_ends_without_a_word(self):
        self.cluster.end_pod(0, "no report")

    @rule()
    def image_is_missing(self):
        self.cluster.hold_pods("ErrImagePull", "not found")

    @rule()
    def ended_pods_are_collected(self):
        self.cluster.lose_ended_pods()

    @rule(seconds=st.sampled_from([1, 31, 301, 700]))
    def time_passes(self, seconds):
        self.cluster.pass_time(seconds)

    @precondition(lambda self: self.cluster.job is not None)
    @rule(suspend=st.booleans())
    def person_suspends(self, suspend):
        if self.cluster.job["spec"].get("suspend", False) != suspend:
            self.cluster.user_patches(suspend=suspend)

    @precondition(lambda self: self.cluster.job is not None)
    @rule()
    def person_retries(self):
        self.tokens += 1
        self.cluster.user_retries(f"token-{self.tokens}")

    @rule()
    def person_deletes_a_child(self):
        self.cluster.user_deletes_child()

    @invariant()
    def never_two_live_children(self):
        cluster = getattr(self, "cluster", None)
        if cluster is None:
            return
        live = [c["metadata"]["name"] for c in cluster.live()]
        assert len(live) <= 1, live

    @invariant()
    def never_final_over_a_live_child(self):
        cluster = getattr(self, "cluster", None)
        if cluster is None or cluster.job is None or not cluster.job["status"]:
            return
        if cluster.condition("Succeeded")[0] in FINAL:
            assert cluster.live() == []

    @invariant()
    def conditions_read_as_kstatus_reads_them(self):
        cluster = getattr(self, "cluster", None)
        if cluster is None or cluster.job is None or not cluster.job["status"]:
            return
        shown = {c["type"]: c["status"] for c in cluster.job["status"]["conditions"]}
        assert len(shown) == 10
        ended = shown["Succeeded"] in FINAL
        ready = shown["Ready"] == "True"
        assert (shown["Stalled"] == "True") == (ended and not ready)
        assert not (ended and shown["Reconciling"] == "True")
        assert not (ready and shown["Stalled"] == "True")
        assert ended == ("completionTime" in cluster.job["status"])

    @invariant()
    def no_result_is_lost(self):
        cluster = getattr(self, "cluster", None)
        if cluster is None or cluster.job is None or not cluster.job["status"]:
            return
        for stage in cluster.job["status"]["stages"]:
            attempt = self.known.get(stage["name"])
            if attempt == stage["attempt"]:
                assert stage["state"] == "Succeeded", stage
            if stage["state"] == "Succeeded":
                self.known[stage["name"]] = stage["attempt"]

    def teardown(self):
        cluster = getattr(self, "cluster", None)
        if cluster is None or cluster.job is None:
            return
        self._comes_to_an_end(cluster)
        self._says_the_same_again(cluster)

    def _comes_to_an_end(self, cluster):
        cluster.lag, cluster.steps_left = {}, None
        if cluster.job["spec"].get("suspend"):
            cluster.user_patches(suspend=False)
        for _ in range(60):
            self.visit()
            cluster.run_controller()
            cluster.start_pods()
            cluster.end_pod(0)
            self.never_two_live_children()
            self.never_final_over_a_live_child()
            if cluster.condition("Succeeded")[0] in FINAL and not cluster.live():
                break
            cluster.pass_time(40)
        event(f"it ends with {cluster.condition('Succeeded')[1]}")
        assert cluster.condition("Succeeded")[0] in FINAL, cluster.job["status"]
        assert cluster.live() == []

    def _says_the_same_again(self, cluster):
        writes, moves = cluster.status_writes, len(cluster.past)
        self.visit()
        self.visit()
        assert (cluster.status_writes, len(cluster.past)) == (writes, moves)


AnyOrder.TestCase.settings = settings(
    max_examples=40,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestAnyOrder = AnyOrder.TestCase


class AppliedTwice(AnyOrder):
    """Every plan is carried out twice, as after a kill just behind its last action."""

    def visit(self):
        cluster = self.cluster
        for again in (False, True):
            snapshot = asyncio.run(cluster.observe_now(None))
            if snapshot is None:
                return None
            decided = plan(snapshot, cluster.now, SETTINGS)
            for _ in range(2):
                for action in decided.actions:
                    if cluster.job is not None:
                        cluster.carry_out(action)
            if decided.status is not None and cluster.job is not None:
                job = read_job_object(cluster.job)
                asyncio.run(cluster.write_status(job, decided.status))
            if again and cluster.job is not None:
                self._decides_nothing_new(cluster)
        return timedelta(0)

    @staticmethod
    def _decides_nothing_new(cluster):
        """Once written down, the same look gives no new status but for what actions changed."""
        before = [child["metadata"]["uid"] for child in cluster.children.values()]
        decided = plan(asyncio.run(cluster.observe_now(None)), cluster.now, SETTINGS)
        for action in decided.actions:
            cluster.carry_out(action)
        if cluster.job is not None:
            now_there = [child["metadata"]["uid"] for child in cluster.children.values()]
            assert now_there == before or len(now_there) <= len(before) + 1

    @rule(steps=st.integers(0, 6))
    def operator_is_killed_during_a_visit(self, steps):
        self.visit()

    @rule(job=st.integers(0, 4), children=st.integers(0, 4), pods=st.integers(0, 4))
    def operator_visits_with_lag(self, job, children, pods):
        self.visit()


AppliedTwice.TestCase.settings = settings(
    max_examples=25,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestAppliedTwice = AppliedTwice.TestCase


def test_the_works_of_a_job_are_the_contracts_stages():
    assert [stage.value for stage in STAGES.values()] == [
        "profile",
        "search",
        "recover",
        "validate",
    ]
    assert issubclass(StaleError, Exception)
