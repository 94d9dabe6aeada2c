"""The chart on a real API server: everything rendered is taken, and live objects outlive it."""

import base64
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from access import rights
from clusters import Refused, install_crd, job_path, wait_for
from programs import FOLDER, call, run
from rendering import CHART, NAMESPACE, RELEASE, VALUES, only, pod_templates
from resources import Resources
from test_chart_gitops import ARGOCD, FLUX, PHASES, cases_of, sample
from verdicts import argocd, flux, flux_by_expressions

pytestmark = pytest.mark.cluster

GOOD = sorted(path.name for path in VALUES.glob("*.yaml"))
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/compressionjobs.autocompress.dev"


@pytest.fixture(scope="module")
def server(bare_cluster):
    """With the Prometheus operator's definitions, and namespaces that take restricted pods only."""
    resources = Resources(bare_cluster.api)
    for file in sorted((Path(os.environ[FOLDER]) / "crds").glob("*.yaml")):
        resources.apply(yaml.safe_load(file.read_text(encoding="utf-8")))
    wait_for(lambda: served(bare_cluster.api, "/apis/monitoring.coreos.com/v1"), "the definitions")
    for name in (NAMESPACE, "team-a", "team-b"):
        metadata = {"name": name, "labels": RESTRICTED}
        resources.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    return resources


def served(api, path):
    try:
        return len(api.get(path)["resources"]) >= 3
    except Refused:
        return False


@pytest.mark.parametrize("values", GOOD)
def test_every_rendered_object_is_taken(helm, server, values):
    options = ("--values", VALUES / values, "--set", "metrics.prometheusRule.enabled=true")
    if values == "bare.yaml":
        options = options[:2]
    objects = helm.objects(*options)
    accounts = [found for found in objects if found["kind"] == "ServiceAccount"]
    for account in accounts:
        server.apply(account)
    for found in objects:
        answer = server.apply(found, dryRun="All")
        assert answer["metadata"]["name"] == found["metadata"]["name"]
    for account in accounts:
        server.api.delete(server.path(account))


def test_pods_pass_pod_security_restricted(helm, server):
    """The API server judges pods only: so each template is tried as a pod."""
    objects = helm.objects("--values", VALUES / "everything.yaml")
    for account in objects:
        if account["kind"] == "ServiceAccount" and account["metadata"]["namespace"] == NAMESPACE:
            server.apply(account)
    default = {"name": "default", "namespace": NAMESPACE}
    server.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": default})
    pods = pod_templates(objects)
    assert len(pods) == 4
    for name, template in pods.items():
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "trial", "namespace": NAMESPACE},
            "spec": without_claims(template["spec"]),
        }
        assert server.apply(pod, dryRun="All")["spec"]["securityContext"]["runAsNonRoot"], name


def without_claims(spec):
    """A StatefulSet's claims are no volumes of its template: an empty one stands in."""
    known = {volume["name"] for volume in spec["volumes"]} if "volumes" in spec else set()
    used = {m["name"] for c in spec["containers"] for m in c.get("volumeMounts", [])}
    more = [{"name": name, "emptyDir": {}} for name in sorted(used - known)]
    return {**spec, "volumes": [*spec.get("volumes", []), *more]}


def test_a_privileged_pod_would_have_been_refused(server):
    default = {"name": "default", "namespace": "team-a"}
    server.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": default})
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "trial", "namespace": "team-a"},
        "spec": {"containers": [{"name": "x", "image": "x"}]},
    }
    with pytest.raises(Refused, match="violates PodSecurity"):
        server.apply(pod, dryRun="All")


@pytest.fixture
def release(helm, bare_cluster, server):
    """``release(command, chart, *options)`` runs helm; the release goes at the end."""
    connection = ("--kubeconfig", bare_cluster.kubeconfig, "--namespace", NAMESPACE)

    def act(command, *arguments):
        return run(helm.program, command, RELEASE, *arguments, *connection)

    yield act
    call(helm.program, "uninstall", RELEASE, *connection)
    api = bare_cluster.api
    for job in list_jobs(api, NAMESPACE):
        api.delete(job_path(NAMESPACE, job["metadata"]["name"]))
    try:
        api.delete(CRD)
        wait_for(lambda: gone(api, CRD), "the definition being gone")
    except Refused as error:
        assert error.code == 404, error


def list_jobs(api, namespace):
    try:
        return api.get(job_path(namespace))["items"]
    except Refused as error:
        assert error.code == 404, error
        return []


def gone(api, path):
    try:
        api.get(path)
    except Refused as error:
        return error.code == 404
    return False


def good_job(name):
    job = json.loads((CHART / "files" / "good.json").read_text(encoding="utf-8"))
    return {**job, "metadata": {"name": name, "namespace": NAMESPACE}}


def test_upgrade_keeps_definition_objects_and_secret(release, bare_cluster, server, tmp_path):
    """From a chart whose definition knows less."""
    api = bare_cluster.api
    values = ("--no-hooks", "--set", "minio.enabled=true,metrics.serviceMonitor.enabled=true")
    release("install", older_chart(tmp_path), *values)
    assert "Progress" not in columns(api)
    made = api.create(job_path(NAMESPACE), good_job("llama8b"))
    secret = f"/api/v1/namespaces/{NAMESPACE}/secrets/autocompress-minio"
    keys = api.get(secret)["data"]

    release("upgrade", CHART, *values, "--set", "watchNamespaces={team-a}")
    assert "Progress" in columns(api)
    kept = api.get(job_path(NAMESPACE, "llama8b"))
    assert kept["metadata"]["uid"] == made["metadata"]["uid"]
    assert kept["spec"] == made["spec"]
    assert api.get(secret)["data"] == keys
    assert gone(api, f"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{NAMESPACE}-x")

    release("uninstall")
    assert api.get(job_path(NAMESPACE, "llama8b"))["metadata"]["uid"] == made["metadata"]["uid"]
    assert api.get(secret)["data"] == keys
    release("install", CHART, *values)
    assert api.get(secret)["data"] == keys


def older_chart(folder):
    """A copy of the chart under an older version, whose definition has a column less."""
    chart = shutil.copytree(CHART, folder / "older")
    about = yaml.safe_load((chart / "Chart.yaml").read_text(encoding="utf-8"))
    (chart / "Chart.yaml").write_text(yaml.safe_dump({**about, "version": "0.0.9"}))
    file = chart / "files" / "compressionjobs.yaml"
    crd = yaml.safe_load(file.read_text(encoding="utf-8"))
    (version,) = crd["spec"]["versions"]
    version["additionalPrinterColumns"] = [
        column for column in version["additionalPrinterColumns"] if column["name"] != "Progress"
    ]
    file.write_text("# older\n" + yaml.safe_dump(crd, sort_keys=False))
    return chart


def columns(api):
    (version,) = wait_for(lambda: api.get(CRD), "the definition")["spec"]["versions"]
    return {column["name"] for column in version["additionalPrinterColumns"]}


def test_definition_goes_with_the_chart_where_that_is_wanted(release, bare_cluster):
    release("install", CHART, "--set", "crds.keep=false")
    assert bare_cluster.api.get(CRD)
    release("uninstall")
    wait_for(lambda: gone(bare_cluster.api, CRD), "the definition being gone")


def test_helm_test_takes_the_good_job_and_refuses_the_bad_one(
    release, helm, bare_cluster, server, tmp_path
):
    """The script of the test pod, with the token of its account and with its rights."""
    release("install", CHART)
    wait_for(lambda: not gone(bare_cluster.api, job_path(NAMESPACE)), "jobs being served")
    hooks = helm.objects()
    for kind in ("ServiceAccount", "Role", "RoleBinding"):
        server.apply(only(hooks, kind, "autocompress-test"))
    account = only(hooks, "ServiceAccount", "autocompress-test")
    environment = be_in_pod(bare_cluster, token_of(server, account), tmp_path)
    for name, text in only(hooks, "ConfigMap", "autocompress-test")["data"].items():
        here = text.replace("/etc/autocompress-test", str(tmp_path))
        here = here.replace("/var/run/secrets/kubernetes.io/serviceaccount", str(tmp_path))
        (tmp_path / name).write_text(here, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(tmp_path / "dry_run.py")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "got 201" in done.stdout
    assert "got 422" in done.stdout
    assert list_jobs(bare_cluster.api, NAMESPACE) == []


def be_in_pod(cluster, token, folder):
    """Files and environment as a pod with a service account has them."""
    connection = yaml.safe_load(cluster.kubeconfig.read_text(encoding="utf-8"))
    server = connection["clusters"][0]["cluster"]
    (folder / "ca.crt").write_bytes(base64.b64decode(server["certificate-authority-data"]))
    (folder / "token").write_text(token)
    (folder / "namespace").write_text(NAMESPACE)
    host, _, port = server["server"].removeprefix("https://").partition(":")
    return {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}


def token_of(server, account):
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = server.api.create(f"{server.path(account)}/token", request)
    return answer["status"]["token"]


@pytest.mark.parametrize("mode", ["default.yaml", "namespaces.yaml"])
def test_the_api_server_grants_the_operator_what_the_roles_say(release, helm, server, mode):
    release("install", CHART, "--values", VALUES / mode)
    roles = {
        (found["kind"], found["metadata"]["name"]): rights(found)
        for found in helm.objects("--values", VALUES / mode)
        if found["kind"] in ("Role", "ClusterRole")
    }
    if mode == "default.yaml":
        wanted, there = roles["ClusterRole", f"{NAMESPACE}-autocompress"], ("team-a", "team-b", "x")
    else:
        wanted, there = roles["Role", "autocompress"], ("team-a", "team-b")
    for namespace in there:
        assert {right for right in wanted if may(server.api, right, namespace)} == wanted
    if mode == "namespaces.yaml":
        assert not [right for right in wanted if may(server.api, right, "x")]


def may(api, right, namespace):
    resource, _, sub = right.resource.partition("/")
    attributes = {"group": right.group, "resource": resource, "verb": right.verb}
    if right.resource not in ("nodes", "namespaces", "customresourcedefinitions"):
        attributes |= {"namespace": namespace}
    if sub:
        attributes |= {"subresource": sub}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:{NAMESPACE}:autocompress",
            "resourceAttributes": attributes,
        },
    }
    answer = api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return answer["status"]["allowed"]


@pytest.fixture(scope="module")
def phases(bare_cluster, server, tmp_path_factory):
    """Objects in every phase, as the API server gives them, in files."""
    api = bare_cluster.api
    install_crd(api)
    folder = tmp_path_factory.mktemp("phases")
    for phase in PHASES:
        found = yaml.safe_load(sample(phase).read_text(encoding="utf-8"))
        put_into_phase(api, phase, found)
        path = folder / f"{phase}.yaml"
        path.write_text(yaml.safe_dump(api.get(job_path("team-a", phase))), encoding="utf-8")
    yield folder
    for phase in PHASES:
        api.merge(job_path("team-a", phase), {"metadata": {"finalizers": None}})
        if phase != "deleting":
            api.delete(job_path("team-a", phase))
    api.delete(CRD)
    wait_for(lambda: gone(api, CRD), "the definition being gone")


def put_into_phase(api, phase, found):
    metadata = {"name": phase, "namespace": "team-a"}
    if phase == "deleting":
        metadata["finalizers"] = found["metadata"]["finalizers"]
    metadata["labels"] = found["metadata"].get("labels", {})
    bare = {key: found[key] for key in ("apiVersion", "kind", "spec")}
    api.create(job_path("team-a"), {**bare, "metadata": metadata})
    if phase != "fresh":
        status = {"apiVersion": bare["apiVersion"], "kind": bare["kind"], "status": found["status"]}
        api.apply(job_path("team-a", phase, "status"), status, manager="autocompress-operator")
    if phase == "stale-generation":
        api.merge(job_path("team-a", phase), {"spec": {"suspend": True}})
    if phase == "deleting":
        api.delete(job_path("team-a", phase))


@pytest.mark.parametrize(
    "case", cases_of(ARGOCD / "health_test.yaml", "tests"), ids=lambda case: case["inputPath"]
)
def test_argocd_judges_objects_of_the_api_server_alike(program, phases, case):
    resource = phases / Path(case["inputPath"]).name
    assert argocd(program("argocd-health"), resource) == case["healthStatus"]


@pytest.mark.parametrize("phase", PHASES)
def test_flux_judges_objects_of_the_api_server_alike(program, phases, phase, tmp_path):
    resource = phases / f"{phase}.yaml"
    found = flux(program("flux-health"), resource)
    by_expressions = flux_by_expressions(program("flux-health"), resource, tmp_path)
    assert (found, by_expressions) == FLUX[phase]
