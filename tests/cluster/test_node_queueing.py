"""Stages behind a real queue, and recovery on two nodes by each controller that can run it."""

import os
from pathlib import Path

import pytest
from clusters import PROGRAMS, wait_for
from node_stack import (
    CHART,
    NAMESPACE,
    PATIENCE_SECONDS,
    RELEASE,
    recovery,
    small_job,
    wait_until_gone,
    watch,
)
from operators import stage

pytestmark = pytest.mark.slow

QUEUE = "tests"
RUNTIME = "autocompress-tests"
#: A pod of this size fills the quota, and two of them do not fit on a node of two cores.
ONE = {"requests": {"cpu": "1100m", "memory": "256Mi"}}
EVERY_STEP = [
    {"name": name, "resources": ONE}
    for name in ("Preflight", "Profile", "Search", "Recover", "Validate")
]
#: What each chart's image is called in its values; as far as they go, the requests are small.
CHARTS = {
    "kueue": (
        "kueue-*.tgz",
        "kueue-system",
        {
            "controllerManager.manager.image.repository": "localhost/kueue",
            "controllerManager.manager.image.tag": "1",
            "controllerManager.manager.image.pullPolicy": "IfNotPresent",
            "controllerManager.manager.resources.requests.cpu": "50m",
        },
    ),
    "jobset": (
        "jobset-*.tgz",
        "jobset-system",
        {
            "image.repository": "localhost/jobset",
            "image.tag": "1",
            "image.pullPolicy": "IfNotPresent",
            "controller.resources.requests.cpu": "50m",
        },
    ),
    "trainer": (
        "kubeflow-trainer-*.tgz",
        "trainer-system",
        {
            "image.registry": "localhost",
            "image.repository": "trainer",
            "image.tag": "1",
            "jobset.install": "false",
        },
    ),
}


@pytest.fixture(scope="module")
def controllers(stack, first_job):
    """Kueue, JobSet and Trainer, and the operator told of them by an upgrade of its chart."""
    if stack.cluster.folder is None:
        pytest.skip("loads controllers by the programs of a cluster of its own")
    charts = Path(os.environ[PROGRAMS]) / "charts"
    for name, (pattern, namespace, values) in CHARTS.items():
        chart = next(charts.glob(pattern), None)
        if chart is None:
            pytest.skip(f"needs the chart of {name} in {charts}")
        stack.cluster.image(name, "--path", "/manager")
        settings = ",".join(f"{key}={value}" for key, value in values.items())
        stack.ask_helm(
            *("upgrade", "--install", name, chart, "--create-namespace"),
            *("--wait", "--timeout", "10m", "--set", settings),
            namespace=namespace,
        )
    stack.ask_helm(
        *("upgrade", RELEASE, CHART, "--reuse-values", "--wait", "--timeout", "10m"),
        *("--set", "kueue.enabled=true,jobset.enabled=true,trainer.enabled=true"),
    )


@pytest.fixture
def queue(stack, controllers):
    """A queue with quota for one stage at a time."""
    api, version = stack.api, "kueue.x-k8s.io/v1beta1"
    nominal = {"cpu": ONE["requests"]["cpu"], "memory": "64Gi"}
    resources = [{"name": name, "nominalQuota": amount} for name, amount in nominal.items()]
    cluster_queue = {
        "namespaceSelector": {},
        "resourceGroups": [
            {
                "coveredResources": list(nominal),
                "flavors": [{"name": QUEUE, "resources": resources}],
            }
        ],
    }
    for plural, kind, spec in (
        ("resourceflavors", "ResourceFlavor", {}),
        ("clusterqueues", "ClusterQueue", cluster_queue),
        (f"namespaces/{NAMESPACE}/localqueues", "LocalQueue", {"clusterQueue": QUEUE}),
    ):
        body = {"apiVersion": version, "kind": kind, "metadata": {"name": QUEUE}, "spec": spec}
        api.apply(f"/apis/{version}/{plural}/{QUEUE}", body)


def test_a_queue_admits_the_stages_of_two_jobs_in_turn(stack, queue):
    """Both find all results in the store, so that their stages are short."""
    labels = {"kueue.x-k8s.io/queue-name": QUEUE}
    given = ("turn-a", "turn-b")
    for name in given:
        stack.jobs.create(small_job(name, labels=labels, stageTemplates=EVERY_STEP))

    def shown():
        children = [child for name in given for child in stack.jobs.children(name)]
        active = [c["metadata"]["name"] for c in children if c["status"].get("active", 0)]
        return active, [stack.jobs.condition(name, "Admitted") for name in given]

    def are_over(_):
        return all("completionTime" in stack.jobs.get(n).get("status", {}) for n in given)

    seen = watch(shown, are_over, pace_seconds=0.3)
    assert max(len(active) for active, _ in seen) == 1, seen
    told = [{admitted[place] for _, admitted in seen} for place in range(len(given))]
    # One of them may find the quota free each time; the other then waits.
    assert any(("False", "WaitingForQuota") in shown_of for shown_of in told), told
    for name, shown_of in zip(given, told, strict=True):
        assert stack.jobs.condition(name, "Ready") == ("True", "Succeeded"), name
        assert ("True", "Admitted") in shown_of, told
        assert stack.jobs.stages_run(name) == [
            *("preflight", "profile", "search", "recover", "validate")
        ]
    for name in given:
        wait_until_gone(stack.jobs, name)


@pytest.fixture
def runtime(stack, controllers):
    """What TrainJobs refer to: as Trainer's own for torch, with an image that is replaced."""
    container = {"name": "node", "image": "replaced"}
    body = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": RUNTIME, "labels": {"trainer.kubeflow.org/framework": "torch"}},
        "spec": {
            "mlPolicy": {"numNodes": 1, "torch": {}},
            "template": {
                "spec": {
                    "replicatedJobs": [
                        {
                            "name": "node",
                            "template": {
                                "metadata": {
                                    "labels": {
                                        "trainer.kubeflow.org/trainjob-ancestor-step": "trainer"
                                    }
                                },
                                "spec": {"template": {"spec": {"containers": [container]}}},
                            },
                        }
                    ]
                }
            },
        },
    }
    path = f"/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes/{RUNTIME}"
    stack.api.apply(path, body)


@pytest.mark.parametrize(
    ("engine", "plural", "seed"),
    [
        ("Job", "batch/v1/namespaces/{}/jobs", 21),
        ("JobSet", "jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets", 22),
        ("TrainJob", "trainer.kubeflow.org/v1alpha1/namespaces/{}/trainjobs", 23),
    ],
)
def test_recovery_on_two_nodes(stack, runtime, engine, plural, seed):
    name = f"two-{engine.lower()}"
    more = {"runtimeRef": {"name": RUNTIME}} if engine == "TrainJob" else {}
    stack.jobs.create(
        small_job(
            name,
            recovery=recovery(engine=engine, nodes=2, seed=seed, **more),
            stageTemplates=[{"name": "Recover", "resources": ONE}],
        )
    )

    def over():
        status = stack.jobs.get(name).get("status", {})
        found = stage(status, "Recover") if status.get("stages") else {}
        return found if found.get("state") in ("Succeeded", "Failed") else None

    found = wait_for(over, "the end of the recovery", timeout_seconds=PATIENCE_SECONDS)
    assert (found["state"], found["attempt"]) == ("Succeeded", 1), found
    ref = found["jobRef"]
    assert ref["kind"] == engine
    child = stack.api.get(f"/apis/{plural.format(NAMESPACE)}/{ref['name']}")
    assert child["metadata"]["ownerReferences"][0]["name"] == name
    pods = stack.pods(name, "recover")
    assert len(pods) == 2
    assert len({pod["spec"]["nodeName"] for pod in pods}) == 2
    for pod in pods:
        (container,) = pod["status"]["containerStatuses"]
        assert found["outputs"]["digest"] in container["state"]["terminated"]["message"]
    wait_until_gone(stack.jobs, name)
