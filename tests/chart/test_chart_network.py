"""Traffic that the design needs passes the rendered policies, other traffic does not."""

import pytest
from network import Address, Pod, Port, allowed
from rendering import NAMESPACE, VALUES, only, pod_templates

from autocompress.api import names
from autocompress.contract.stage import Stage

DNS, DNS_TCP = Port(53, "UDP"), Port(53)
HTTPS, API, S3, PROGRESS, METRICS = Port(443), Port(6443), Port(9000), Port(8080), Port(9090)
HTTP, SSH, RENDEZVOUS = Port(80), Port(22), Port(29500)
MODELS = "models"


def stage_pod(stage, namespace=MODELS, job="llama8b"):
    labels = {
        names.LABEL_MANAGED_BY: names.MANAGER,
        names.LABEL_PART_OF: names.PART_OF,
        names.LABEL_JOB: job,
        names.LABEL_STAGE: stage,
    }
    return Pod(namespace=namespace, labels=labels, ports={"progress": 8080})


def policies_and_pods(helm, *options):
    objects = helm.objects(*options)
    templates = pod_templates(objects)

    def pod(name):
        template = templates[name]
        ports = {
            port["name"]: port["containerPort"]
            for container in template["spec"]["containers"]
            for port in container.get("ports", [])
        }
        return Pod(namespace=NAMESPACE, labels=template["metadata"]["labels"], ports=ports)

    pods = {
        "operator": pod("Deployment/autocompress"),
        "minio": pod("StatefulSet/autocompress-minio"),
        "bucket": pod("Job/autocompress-minio-bucket"),
        "test": pod("Pod/autocompress-test"),
        "preflight": stage_pod("preflight"),
        **{stage.value: stage_pod(stage.value) for stage in Stage},
        "recover-1": stage_pod(Stage.RECOVER.value),
        "prometheus": Pod(namespace="monitoring", labels={"app": "prometheus"}),
        "dns": Pod(namespace="kube-system", labels={"k8s-app": "kube-dns"}),
        "kube-system": Pod(namespace="kube-system", labels={"app": "other"}),
        "neighbour": Pod(namespace=MODELS, labels={"app": "neighbour"}),
        "stranger": Pod(namespace="other", labels={"app": "stranger"}),
        "model-server": Pod(
            namespace=NAMESPACE, labels={"app.kubernetes.io/component": "model-server"}
        ),
        "store": Pod(namespace="storage", labels={"app": "store"}),
        "api-server": Address("10.0.0.1"),
        "internet": Address("203.0.113.7"),
        "metadata": Address("169.254.169.254"),
    }
    return [o for o in objects if o["kind"] == "NetworkPolicy"], pods


ON = ("--set", f"minio.enabled=true,stages.namespaces={{{MODELS}}}")

NEEDED = [
    # The operator watches and writes, asks stages how far they are, is scraped.
    ("operator", "dns", DNS),
    ("operator", "dns", DNS_TCP),
    ("operator", "api-server", API),
    ("operator", "api-server", HTTPS),
    *(("operator", stage.value, PROGRESS) for stage in Stage),
    ("operator", "recover-1", PROGRESS),
    ("prometheus", "operator", METRICS),
    # Stages reach names, object store and model source, and serve their progress and metrics.
    *(
        (stage, target, port)
        for stage in ("preflight", *(stage.value for stage in Stage))
        for target, port in (
            ("dns", DNS),
            ("dns", DNS_TCP),
            ("internet", HTTPS),
            ("store", S3),
            ("minio", S3),
        )
    ),
    *(("prometheus", stage.value, PROGRESS) for stage in Stage),
    # Recovery over several nodes, on ports that the framework picks.
    ("recover", "recover-1", RENDEZVOUS),
    ("recover-1", "recover", RENDEZVOUS),
    ("recover", "recover-1", Port(45017)),
    # The bucket of the evaluation MinIO; the chart's own test.
    ("bucket", "dns", DNS),
    ("bucket", "minio", S3),
    ("test", "dns", DNS),
    ("test", "api-server", API),
]
UNNEEDED = [
    ("operator", "internet", HTTP),
    ("operator", "internet", SSH),
    ("operator", "minio", S3),
    ("operator", "store", S3),
    ("operator", "recover", RENDEZVOUS),
    ("operator", "neighbour", PROGRESS),
    ("operator", "kube-system", DNS),
    ("stranger", "operator", METRICS),
    ("prometheus", "operator", PROGRESS),
    ("stranger", "operator", PROGRESS),
    ("profile", "operator", METRICS),
    # Least of all a stage, which runs models from elsewhere.
    *((stage.value, "metadata", HTTP) for stage in Stage),
    *((stage.value, "internet", HTTP) for stage in Stage),
    *((stage.value, "internet", SSH) for stage in Stage),
    *((stage.value, "api-server", API) for stage in Stage),
    *((stage.value, "neighbour", HTTP) for stage in Stage),
    *((stage.value, "kube-system", DNS) for stage in Stage),
    *(("neighbour", stage.value, PROGRESS) for stage in Stage),
    *(("stranger", stage.value, PROGRESS) for stage in Stage),
    *(("internet", stage.value, PROGRESS) for stage in Stage),
    *(("prometheus", stage.value, SSH) for stage in Stage),
    ("recover", "validate", RENDEZVOUS),
    ("profile", "search", PROGRESS),
    ("neighbour", "recover", RENDEZVOUS),
    # MinIO opens nothing and is opened by stages only.
    ("stranger", "minio", S3),
    ("neighbour", "minio", S3),
    ("model-server", "minio", S3),
    ("prometheus", "minio", S3),
    ("profile", "minio", Port(9001)),
    ("minio", "internet", HTTPS),
    ("minio", "dns", DNS),
    ("bucket", "internet", HTTPS),
    ("bucket", "api-server", API),
    ("stranger", "bucket", HTTPS),
    ("test", "internet", HTTP),
    ("test", "minio", S3),
]


@pytest.fixture(scope="module")
def world(helm):
    return policies_and_pods(helm, *ON)


def open_traffic(world, flows):
    policies, pods = world
    return [flow for flow in flows if allowed(policies, pods[flow[0]], pods[flow[1]], flow[2])]


def test_traffic_that_is_needed_passes(world):
    assert open_traffic(world, NEEDED) == NEEDED


def test_other_traffic_is_stopped(world):
    assert open_traffic(world, UNNEEDED) == []


def test_every_pod_of_the_chart_is_confined_both_ways(world):
    policies, pods = world
    for name in ("operator", "minio", "bucket", "test", "preflight", *(s.value for s in Stage)):
        for other in ("stranger", "internet"):
            assert not allowed(policies, pods[name], pods[other], SSH), name
            assert not allowed(policies, pods[other], pods[name], SSH), name


def test_what_the_values_name_alone_is_open(helm):
    world = policies_and_pods(helm, "--values", VALUES / "everything.yaml", *ON)
    policies, pods = world
    profile = pods["profile"]
    assert allowed(policies, profile, Address("192.0.2.7"), HTTPS)
    assert not allowed(policies, profile, Address("192.0.2.7"), S3)
    assert not allowed(policies, profile, pods["internet"], HTTPS)
    assert not allowed(policies, profile, pods["store"], HTTPS)
    assert allowed(policies, profile, pods["minio"], S3)
    assert allowed(policies, pods["operator"], pods["api-server"], API)
    assert not allowed(policies, pods["operator"], pods["api-server"], HTTPS)
    assert not allowed(policies, pods["operator"], pods["internet"], API)
    assert allowed(policies, pods["model-server"], pods["minio"], S3)


def test_in_named_namespaces_the_operator_asks_stages_there_only(helm):
    policies, pods = policies_and_pods(
        helm, "--values", VALUES / "namespaces.yaml", "--set", "minio.enabled=true"
    )
    here, elsewhere = stage_pod("profile", "team-a"), stage_pod("profile", "team-c")
    assert allowed(policies, pods["operator"], here, PROGRESS)
    assert not allowed(policies, pods["operator"], elsewhere, PROGRESS)
    assert not allowed(policies, here, pods["metadata"], HTTP)


def test_without_scraping_nobody_reaches_the_operator(helm):
    policies, pods = policies_and_pods(helm, *ON, "--set", "metrics.enabled=false")
    assert not allowed(policies, pods["prometheus"], pods["operator"], METRICS)


def test_policies_can_be_left_out(helm):
    policies, _ = policies_and_pods(helm, *ON, "--set", "networkPolicy.enabled=false")
    assert policies == []


def test_stage_pods_are_told_by_the_labels_that_the_operator_puts_on_them(helm):
    """The selector has no label that the operator does not write."""
    policy = only(helm.objects(*ON), "NetworkPolicy", "autocompress-stages")
    assert policy["spec"]["podSelector"]["matchLabels"] == {
        names.LABEL_MANAGED_BY: names.MANAGER,
        names.LABEL_PART_OF: names.PART_OF,
    }


@pytest.mark.parametrize(
    ("policy", "flow", "passes"),
    [
        ({"podSelector": {}, "policyTypes": ["Ingress"]}, ("stranger", "x"), False),
        ({"podSelector": {}, "policyTypes": ["Egress"]}, ("stranger", "x"), True),
        (
            {"podSelector": {"matchLabels": {"a": "c"}}, "policyTypes": ["Ingress"]},
            ("x", "x"),
            True,
        ),
        ({"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{}]}, ("stranger", "x"), True),
        (
            {
                "podSelector": {},
                "policyTypes": ["Ingress"],
                "ingress": [{"from": [{"podSelector": {}}]}],
            },
            ("stranger", "x"),
            False,
        ),
        (
            {
                "podSelector": {},
                "policyTypes": ["Ingress"],
                "ingress": [{"from": [{"namespaceSelector": {}}], "ports": [{"port": "web"}]}],
            },
            ("stranger", "x"),
            True,
        ),
        (
            {
                "podSelector": {},
                "policyTypes": ["Ingress"],
                "ingress": [{"ports": [{"port": 70, "endPort": 79}]}],
            },
            ("stranger", "x"),
            False,
        ),
        (
            {
                "podSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
                "policyTypes": ["Ingress"],
                "ingress": [
                    {"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}]}
                ],
            },
            ("outside", "x"),
            False,
        ),
    ],
)
def test_the_evaluator_follows_the_rules(policy, flow, passes):
    pods = {
        "x": Pod(namespace="n", labels={"a": "b"}, ports={"web": 80}),
        "stranger": Pod(namespace="m", labels={}),
        "outside": Address("10.1.2.3"),
    }
    full = {"metadata": {"namespace": "n"}, "spec": policy}
    assert allowed([full], pods[flow[0]], pods[flow[1]], HTTP) == passes
