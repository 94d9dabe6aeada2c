"""The Deployment against what the operator reads from its environment."""

import pytest
from rendering import VALUES, only, pod_templates

from autocompress_operator.settings import PREFIX, Settings, Switch, read_settings

GOOD = sorted(path.name for path in VALUES.glob("*.yaml"))


def container(helm, *options):
    (found,) = only(helm.objects(*options), "Deployment")["spec"]["template"]["spec"]["containers"]
    return found


def settings(helm, *options):
    environment = {e["name"]: e["value"] for e in container(helm, *options)["env"] if "value" in e}
    return read_settings(environment), environment


@pytest.mark.parametrize("values", GOOD)
def test_operator_understands_its_environment(helm, values):
    _, environment = settings(helm, "--values", VALUES / values)
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    assert {name for name in environment if name.startswith(PREFIX)} <= known


def test_everything_reaches_the_operator(helm):
    found, _ = settings(helm, "--values", VALUES / "everything.yaml")
    mirror = "registry.example.com:5000/mirror/autocompress"
    assert found.operator_image == f"{mirror}/operator@sha256:{'a' * 64}"
    assert found.stage_image_cpu == f"{mirror}/stage-cpu@sha256:{'b' * 64}"
    assert found.stage_image_cuda == f"{mirror}/stage-cuda:v2-cu13"
    assert found.stage_image_pull_policy == "Always"
    assert found.operator_image_pull_policy == "IfNotPresent"
    assert {found.kueue, found.jobset, found.trainer, found.nodes} == {Switch.ENABLED}
    assert {found.preflight, found.metrics_per_job} == {Switch.DISABLED}
    assert found.metrics_max_jobs == 100_000
    assert found.log_level == "DEBUG"


def test_defaults_are_the_operators_own(helm):
    """Where a value of the chart says nothing new, both agree on the default."""
    found, _ = settings(helm)
    given = {"operator_image", "stage_image_cpu", "stage_image_cuda", "stage_image_tensorrt_llm"}
    for name, field in Settings.model_fields.items():
        if name not in given:
            assert getattr(found, name) == field.default, name


def test_namespaces_reach_the_operator(helm):
    found, _ = settings(helm, "--values", VALUES / "namespaces.yaml")
    assert found.watch_namespaces == ("team-a", "team-b")
    assert found.nodes is Switch.DISABLED


def test_ports_and_probes_are_the_operators(helm):
    found, _ = settings(helm, "--set", "metrics.port=9191")
    operator = container(helm, "--set", "metrics.port=9191")
    ports = {port["name"]: port["containerPort"] for port in operator["ports"]}
    assert ports == {"metrics": found.metrics_port, "health": found.liveness_port}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert operator[probe]["httpGet"] == {"path": "/healthz", "port": "health"}


def test_one_operator_at_a_time(helm):
    spec = only(helm.objects(), "Deployment")["spec"]
    assert (spec["replicas"], spec["strategy"]["type"]) == (1, "Recreate")


@pytest.mark.parametrize("values", GOOD)
def test_pods_are_restricted(helm, values):
    """As Pod Security's level restricted asks, and a root that cannot be written."""
    pods = pod_templates(helm.objects("--values", VALUES / values))
    assert "Deployment/autocompress" in pods
    for name, pod in pods.items():
        spec = pod["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True, name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        for inner in [*spec["containers"], *spec.get("initContainers", [])]:
            context = inner["securityContext"]
            assert context["allowPrivilegeEscalation"] is False, name
            assert context["readOnlyRootFilesystem"] is True, name
            assert context["capabilities"] == {"drop": ["ALL"]}, name
            assert "memory" in inner["resources"]["limits"], name
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys(), name
        assert all("hostPath" not in volume for volume in spec.get("volumes", [])), name


def test_only_who_asks_the_api_server_has_a_token(helm):
    pods = pod_templates(helm.objects("--values", VALUES / "everything.yaml"))
    assert {name for name, pod in pods.items() if pod["spec"]["automountServiceAccountToken"]} == {
        "Deployment/autocompress",
        "Pod/autocompress-test",
    }
    for found in helm.objects("--values", VALUES / "everything.yaml"):
        if found["kind"] == "ServiceAccount":
            assert found["automountServiceAccountToken"] is False


def test_every_image_can_be_pinned_and_mirrored(helm):
    digest = f"sha256:{'0' * 64}"
    images = ("operator.image", "minio.image", *(f"stages.images.{n}" for n in IMAGES))
    pins = ",".join(f"{image}.digest={digest}" for image in images)
    options = ("--set", f"minio.enabled=true,global.imageRegistry=mirror.example.com,{pins}")
    objects = helm.objects(*options)
    containers = [c for pod in pod_templates(objects).values() for c in pod["spec"]["containers"]]
    _, environment = settings(helm, *options)
    told = {text for name, text in environment.items() if "_IMAGE" in name and "PULL" not in name}
    used = {container["image"] for container in containers} | told
    assert len(used) == 5
    for image in used:
        assert image.startswith("mirror.example.com/"), image
        assert image.endswith(f"@{digest}"), image


IMAGES = ("cpu", "cuda", "tensorrtLLM")


def test_names_stay_short_and_apart_for_long_releases(helm):
    long = "a-release-whose-name-is-as-long-as-helm-takes-it-0123"
    objects = helm.objects("--set", f"fullnameOverride={long},minio.enabled=true")
    names = [(o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"]) for o in objects]
    assert len(set(names)) == len(names)
    assert all(len(name) <= 63 for kind, _, name in names if kind != "CustomResourceDefinition")


def test_common_labels_are_on_everything_but_the_definition(helm):
    for found in helm.objects("--values", VALUES / "everything.yaml"):
        if found["kind"] != "CustomResourceDefinition":
            assert found["metadata"]["labels"]["team"] == "ml", found["metadata"]["name"]
