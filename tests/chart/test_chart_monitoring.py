"""Alerts by promtool; monitors and dashboard against what is served."""

import json
import re
from pathlib import Path

import yaml
from programs import run
from rendering import CHART, VALUES, only, pod_templates

HERE = Path(__file__).parent
METRIC = re.compile(r"\bcompression(?:job)?_[a-z_]+")
ON = ("--set", "metrics.prometheusRule.enabled=true,metrics.serviceMonitor.enabled=true")


def rules(helm):
    return only(helm.objects(*ON), "PrometheusRule")["spec"]


def dashboard():
    return json.loads((CHART / "files" / "dashboard.json").read_text(encoding="utf-8"))


def queries(panels):
    return [target["expr"] for panel in panels for target in panel.get("targets", [])]


def test_alerts_fire_when_they_should_and_only_then(helm, program, tmp_path):
    promtool = program("promtool")
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rules(helm)), encoding="utf-8")
    text = (HERE / "alerts.yaml").read_text(encoding="utf-8")
    (tmp_path / "alerts.yaml").write_text(text, encoding="utf-8")
    run(promtool, "check", "rules", "rules.yaml", cwd=tmp_path)
    run(promtool, "test", "rules", "alerts.yaml", cwd=tmp_path)


def test_every_alert_is_tested_and_says_what_to_do(helm):
    tested = (HERE / "alerts.yaml").read_text(encoding="utf-8")
    for group in rules(helm)["groups"]:
        for rule in group["rules"]:
            assert f"alertname: {rule['alert']}" in tested, rule["alert"]
            assert set(rule["annotations"]) == {"summary", "description"}
            assert rule["labels"]["severity"] in {"info", "warning", "critical"}


def test_thresholds_are_values(helm):
    options = {"stagePendingSeconds": 60, "staleSeconds": 90, "reconcileErrorPercent": 5}
    settings = ",".join(f"metrics.prometheusRule.{name}={v}" for name, v in options.items())
    spec = only(helm.objects(*ON, "--set", settings), "PrometheusRule")["spec"]
    found = {rule["alert"]: rule for group in spec["groups"] for rule in group["rules"]}
    assert found["CompressionStagePending"]["for"] == "60s"
    assert found["CompressionOperatorStale"]["expr"].endswith("> 90")
    assert found["CompressionOperatorErrors"]["expr"].endswith("> 5 / 100")


def test_dashboard_queries_are_promql(program, tmp_path):
    panels = dashboard()["panels"]
    records = [
        {"record": f"query{i}", "expr": query.replace("$__rate_interval", "5m")}
        for i, query in enumerate(queries(panels))
    ]
    assert len(records) > 20
    groups = {"groups": [{"name": "dashboard", "rules": records}]}
    (tmp_path / "queries.yaml").write_text(yaml.safe_dump(groups), encoding="utf-8")
    run(program("promtool"), "check", "rules", "queries.yaml", cwd=tmp_path)


def test_dashboard_panels_fit_and_do_not_overlap():
    taken = set()
    ids = [panel["id"] for panel in dashboard()["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in dashboard()["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24, panel["title"]
        assert not cells & taken, panel["title"]
        taken |= cells


def test_dashboard_is_shipped_as_it_is(helm):
    config = only(
        helm.objects("--set", "metrics.dashboard.enabled=true"),
        "ConfigMap",
        "autocompress-dashboard",
    )
    assert json.loads(config["data"]["autocompress.json"]) == dashboard()
    assert config["metadata"]["labels"]["grafana_dashboard"] == "1"


def test_monitors_find_the_ports_that_pods_have(helm):
    objects = helm.objects("--values", VALUES / "everything.yaml")
    pods = pod_templates(objects)
    service = only(objects, "Service", "autocompress-metrics")
    monitor = only(objects, "ServiceMonitor")
    operator = pods["Deployment/autocompress"]
    (container,) = operator["spec"]["containers"]
    assert service["spec"]["selector"].items() <= operator["metadata"]["labels"].items()
    wanted = monitor["spec"]["selector"]["matchLabels"]
    assert wanted.items() <= service["metadata"]["labels"].items()
    assert [p["name"] for p in service["spec"]["ports"]] == [
        endpoint["port"] for endpoint in monitor["spec"]["endpoints"]
    ]
    names = {port["name"] for port in container["ports"]}
    assert {port["targetPort"] for port in service["spec"]["ports"]} <= names
    assert all(endpoint["honorLabels"] for endpoint in monitor["spec"]["endpoints"])


def test_minio_is_not_selected_as_the_operators_metrics(helm):
    objects = helm.objects("--set", "minio.enabled=true")
    selector = only(objects, "Service", "autocompress-metrics")["spec"]["selector"]
    selected = [
        name
        for name, pod in pod_templates(objects).items()
        if selector.items() <= pod["metadata"]["labels"].items()
    ]
    assert selected == ["Deployment/autocompress"]
