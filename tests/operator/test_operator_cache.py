"""What watches show, kept; and looks made of it."""

import pytest
from operator_samples import (
    SETTINGS,
    UID,
    at,
    child_object,
    event_object,
    job_object,
    node_object,
    pod_object,
    text,
)

from autocompress.api.v1alpha1.status import Progress
from autocompress_operator.cache import Cache
from autocompress_operator.reading import UnreadableError
from autocompress_operator.resources import Kind, watched
from autocompress_operator.settings import Switch
from autocompress_operator.snapshot import ChildKind, Key
from autocompress_operator.store import Store

KEY = Key(namespace="team-a", name="small")


@pytest.fixture
def cache():
    return Cache(nodes={})


@pytest.fixture
def store(cache):
    return Store(cache)


def with_version(raw, version):
    raw["metadata"]["resourceVersion"] = str(version)
    return raw


def workload_object(child="small-profile-00000001", *conditions):
    return {
        "metadata": {
            "name": f"job-{child}",
            "namespace": "team-a",
            "uid": f"uid-workload-{child}",
            "resourceVersion": "1",
            "creationTimestamp": text(at()),
            "ownerReferences": [
                {"kind": "Job", "name": child, "uid": "uid-profile-1", "controller": True}
            ],
        },
        "status": {"conditions": list(conditions)},
    }


def test_a_snapshot_holds_what_belongs_to_the_job(cache, store):
    store.put(Kind.COMPRESSION_JOBS, job_object())
    store.put(Kind.JOBS, child_object("profile"))
    store.put(Kind.PODS, pod_object("profile"))
    store.put(Kind.EVENTS, event_object("no"))
    store.put(Kind.WORKLOADS, workload_object())
    store.put(Kind.NODES, node_object("a"))
    cache.progress["uid-profile-pod"] = Progress(percent=5)
    snapshot = cache.snapshot(KEY)
    (child,) = snapshot.children
    assert snapshot.pods_of(child)[0].name == "small-profile-pod"
    assert snapshot.events_of(child)[0].message == "no"
    assert snapshot.workload_of(child).owner_uid == child.uid
    assert [node.name for node in snapshot.nodes] == ["a"]
    assert snapshot.progress == {"uid-profile-pod": Progress(percent=5)}


def test_children_of_an_earlier_job_of_the_name_are_left_out(cache, store):
    store.put(Kind.COMPRESSION_JOBS, job_object(uid="another"))
    store.put(Kind.JOBS, child_object("profile"))
    assert cache.snapshot(KEY).children == ()


def test_only_changes_ask_for_a_visit(store):
    assert store.put(Kind.PODS, with_version(pod_object("profile"), 1)) == {KEY}
    assert store.put(Kind.PODS, with_version(pod_object("profile"), 2)) == frozenset()
    assert store.put(Kind.PODS, with_version(pod_object("profile", phase="Running"), 3)) == {KEY}


def test_an_older_version_does_not_replace_a_newer_one(cache, store):
    store.put(Kind.PODS, with_version(pod_object("profile", phase="Running"), 9))
    store.put(Kind.PODS, with_version(pod_object("profile"), 10_000 - 9_995))
    assert cache.pods.of(KEY)[0].phase == "Running"


def test_what_is_not_ours_is_not_kept(cache, store):
    foreign = child_object("profile")
    foreign["metadata"]["labels"] = {"app": "x"}
    assert store.put(Kind.JOBS, foreign) == frozenset()
    grandchild = child_object("recover")
    grandchild["metadata"]["ownerReferences"][0]["kind"] = "JobSet"
    assert store.put(Kind.JOBS, grandchild) == frozenset()
    assert store.put(Kind.EVENTS, event_object("no", job="cron-1234")) == frozenset()
    assert store.put(Kind.WORKLOADS, workload_object("cron-1234")) == frozenset()
    assert len(cache.children[ChildKind.JOB]) == len(cache.events) == 0


def test_the_end_of_an_object_asks_for_a_visit(cache, store):
    store.put(Kind.COMPRESSION_JOBS, job_object())
    store.put(Kind.JOBS, child_object("profile"))
    assert store.drop(Kind.JOBS, child_object("profile")) == {KEY}
    assert store.drop(Kind.JOBS, child_object("profile")) == frozenset()
    assert store.drop(Kind.COMPRESSION_JOBS, job_object()) == {KEY}
    assert cache.snapshot(KEY) is None


def test_what_a_write_returned_does_not_bring_back_what_is_gone(cache, store):
    store.wrote_job(job_object())
    assert cache.job(KEY) is None
    store.put(Kind.COMPRESSION_JOBS, job_object())
    store.wrote_job(job_object(generation=2, resourceVersion="7"))
    assert cache.job(KEY).generation == 2
    store.put(Kind.COMPRESSION_JOBS, job_object(generation=1, resourceVersion="3"))
    assert cache.job(KEY).generation == 2


def test_of_two_jobs_of_one_name_the_later_counts(cache, store):
    store.put(Kind.COMPRESSION_JOBS, job_object(uid="old", resourceVersion="5"))
    store.put(Kind.COMPRESSION_JOBS, job_object(resourceVersion="9"))
    assert cache.job(KEY).uid == UID
    store.drop(Kind.COMPRESSION_JOBS, job_object(uid="old"))
    assert cache.job(KEY).uid == UID


def test_a_list_takes_out_what_vanished_unseen(cache, store):
    store.put(Kind.PODS, with_version(pod_object("profile", name="a"), 5))
    store.put(Kind.PODS, with_version(pod_object("profile", name="b"), 6))
    store.put(Kind.PODS, with_version(pod_object("profile", name="new"), 50))
    assert cache.pods.prune({"uid-b-pod"}, 40) == {KEY}
    assert {pod.name for pod in cache.pods.of(KEY)} == {"b", "new"}


def test_a_node_asks_for_a_visit_to_jobs_that_go_on(store):
    store.put(Kind.COMPRESSION_JOBS, job_object())
    over = {"completionTime": text(at())}
    store.put(Kind.COMPRESSION_JOBS, job_object(status=over, name="over", uid="over"))
    assert store.put(Kind.NODES, node_object("a")) == {KEY}
    assert store.put(Kind.NODES, with_version(node_object("a"), 2)) == frozenset()
    assert store.put(Kind.NODES, node_object("a", gpus="0")) == {KEY}
    assert store.drop(Kind.NODES, node_object("a")) == {KEY}
    assert store.drop(Kind.NODES, node_object("a")) == frozenset()


def test_without_the_right_to_read_nodes_none_are_known():
    cache = Cache(nodes=None)
    store = Store(cache)
    store.put(Kind.COMPRESSION_JOBS, job_object())
    assert store.put(Kind.NODES, node_object("a")) == frozenset()
    assert cache.snapshot(KEY).nodes is None


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        (Kind.COMPRESSION_JOBS, {"metadata": {}}),
        (Kind.COMPRESSION_JOBS, job_object(status={"conditions": [{"type": "Odd"}]})),
        (Kind.PODS, {"metadata": "x"}),
        (Kind.JOBS, None),
        (Kind.JOBS, with_version(child_object("profile"), "x")),
    ],
)
def test_what_cannot_be_read_is_told(store, kind, raw):
    with pytest.raises(UnreadableError):
        store.put(kind, raw)


def test_kinds_that_are_switched_off_are_not_watched():
    kinds = {resource.kind for resource in watched(SETTINGS)}
    assert kinds == {Kind.COMPRESSION_JOBS, Kind.JOBS, Kind.PODS, Kind.EVENTS, Kind.NODES}
    on = {"kueue": Switch.ENABLED, "jobset": Switch.ENABLED, "trainer": Switch.ENABLED}
    every = watched(SETTINGS.model_copy(update=on))
    assert {resource.kind for resource in every} == set(Kind)
    assert {r.path("ns", "x", "status") for r in every if r.kind is Kind.COMPRESSION_JOBS} == {
        "/apis/autocompress.dev/v1alpha1/namespaces/ns/compressionjobs/x/status"
    }
