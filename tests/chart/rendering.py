"""The chart as objects."""

from __future__ import annotations

import subprocess
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from programs import call

CHART = Path(__file__).parents[2] / "charts" / "autocompress"
VALUES = Path(__file__).parent / "values"
KUBERNETES = "1.34.2"
MONITORING = "monitoring.coreos.com/v1"
RELEASE, NAMESPACE = "autocompress", "autocompress-system"

Object = dict[str, Any]


@dataclass(frozen=True)
class Helm:
    """The program helm, applied to the chart."""

    program: Path

    def template(self, *options: object) -> subprocess.CompletedProcess[str]:
        """Runs `helm template`; its output and code, whatever they are."""
        cluster = ("--kube-version", KUBERNETES, "--api-versions", MONITORING)
        fixed = ("template", RELEASE, CHART, "--namespace", NAMESPACE, *cluster)
        return call(self.program, *fixed, *options)

    def objects(self, *options: object) -> list[Object]:
        """The objects that the chart renders to, hooks included."""
        return deepcopy(_objects(self, options))


@cache
def _objects(helm: Helm, options: tuple[object, ...]) -> list[Object]:
    done = helm.template(*options)
    assert done.returncode == 0, done.stderr
    return [found for found in yaml.load_all(done.stdout, Loader=yaml.CSafeLoader) if found]


def only(objects: list[Object], kind: str, name: str | None = None) -> Object:
    """The one object of a kind, of a name where given."""
    found = [o for o in objects if o["kind"] == kind and name in (None, o["metadata"]["name"])]
    assert len(found) == 1, f"{len(found)} objects {kind} {name or ''}"
    return found[0]


def pod_templates(objects: list[Object]) -> dict[str, Object]:
    """Every pod that the chart makes, itself or through a workload, by kind and name."""
    pods = {}
    for found in objects:
        name = f"{found['kind']}/{found['metadata']['name']}"
        if found["kind"] == "Pod":
            pods[name] = {"metadata": found["metadata"], "spec": found["spec"]}
        elif "template" in found.get("spec", {}):
            pods[name] = found["spec"]["template"]
    return pods
