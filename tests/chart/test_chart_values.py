"""Which values the chart takes and which it refuses, with what words."""

import pytest
from programs import call
from rendering import CHART, NAMESPACE, RELEASE, VALUES

GOOD = sorted(path.name for path in VALUES.glob("*.yaml"))
DIGEST = "sha256:" + "0" * 64

TAKEN = [
    f"operator.image.digest={DIGEST}",
    "global.imageRegistry=registry.example.com:5000/mirror",
    "global.other=of another chart",
    "watchNamespaces={a,b}",
    "metrics.port=65535",
    "metrics.prometheusRule.reconcileErrorPercent=100",
    "networkPolicy.stages.to[0].ipBlock.cidr=10.0.0.0/8",
    "operator.resources.limits.cpu=1500m",
    "minio.persistence.size=1Ti",
]
REFUSED = [
    ("operator.replicas=2", "'replicas' not allowed"),
    ("typo=1", "'typo' not allowed"),
    ("operator.image.digest=sha256:12", "/operator/image/digest"),
    ("operator.image.digest=md5:0", "/operator/image/digest"),
    ("operator.image.repository=UPPER", "/operator/image/repository"),
    ("operator.image.repository=name:tag", "/operator/image/repository"),
    ("operator.image.tag=a b", "/operator/image/tag"),
    ("operator.image.pullPolicy=Sometimes", "/operator/image/pullPolicy"),
    ("operator.logLevel=verbose", "/operator/logLevel"),
    ("operator.resources.limits.memory=lots", "/operator/resources/limits/memory"),
    ("operator.extraEnv[0].value=x", "/operator/extraEnv/0"),
    ("stages.images.gpu.tag=1", "'gpu' not allowed"),
    ("watchNamespaces={A}", "/watchNamespaces/0"),
    ("watchNamespaces={a,a}", "/watchNamespaces"),
    ("metrics.port=0", "/metrics/port"),
    ("metrics.port=8080", "/metrics/port"),
    ("metrics.maxJobs=-1", "/metrics/maxJobs"),
    ("metrics.serviceMonitor.interval=30", "/metrics/serviceMonitor/interval"),
    (
        "metrics.prometheusRule.reconcileErrorPercent=0",
        "/metrics/prometheusRule/reconcileErrorPercent",
    ),
    ("networkPolicy.apiServer.ports={}", "/networkPolicy/apiServer/ports"),
    ("networkPolicy.monitoring.from[0].labels.a=b", "'labels' not allowed"),
    ("crds.enabled=maybe", "/crds/enabled"),
    ("minio.bucket=No", "/minio/bucket"),
    ("minio.persistence.size=50", "/minio/persistence/size"),
]


@pytest.mark.parametrize("values", GOOD)
def test_lint_finds_nothing(helm, values):
    done = call(helm.program, "lint", "--strict", CHART, "--values", VALUES / values)
    assert done.returncode == 0, done.stdout
    assert "[WARNING]" not in done.stdout


@pytest.mark.parametrize("setting", TAKEN)
def test_a_right_value_is_taken(helm, setting):
    done = helm.template("--set", setting)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("setting", "words"), REFUSED)
def test_a_wrong_value_is_refused_by_name(helm, setting, words):
    done = helm.template("--set", setting)
    assert done.returncode != 0
    assert words in done.stderr


@pytest.mark.parametrize("value", ["metrics.serviceMonitor", "metrics.prometheusRule"])
def test_absent_monitoring_definitions_are_told_with_the_remedy(helm, value):
    done = call(
        helm.program,
        *("template", RELEASE, CHART, "--namespace", NAMESPACE, "--kube-version", "1.34.2"),
        *("--set", f"{value}.enabled=true"),
    )
    assert done.returncode != 0
    assert f"{value}.enabled=true needs" in done.stderr
    assert f"set {value}.enabled=false" in done.stderr


def test_an_old_cluster_is_refused(helm):
    done = helm.template("--kube-version", "1.33.0")
    assert done.returncode != 0
    assert "kubeVersion" in done.stderr
