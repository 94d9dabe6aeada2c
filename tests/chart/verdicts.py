"""What Argo CD and Flux say of an object, by their own machinery."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from programs import run
from rendering import CHART

HEALTH = CHART / "argocd" / "health.lua"
SAMPLE = CHART / "flux" / "kustomization.yaml"


def argocd(program: Path, resource: Path) -> dict[str, str]:
    """Status and message by the chart's script."""
    health: dict[str, str] = json.loads(run(program, "--health", HEALTH, resource))["health"]
    return health


def flux(program: Path, resource: Path) -> str:
    """Status by Flux's reading of conditions."""
    status: str = json.loads(run(program, resource))["status"]
    return status


def flux_by_expressions(program: Path, resource: Path, folder: Path) -> str:
    """Status by the expressions of the chart's sample."""
    (sample,) = yaml.safe_load(SAMPLE.read_text(encoding="utf-8"))["spec"]["healthCheckExprs"]
    expressions: dict[str, Any] = {
        key: text for key, text in sample.items() if key in ("inProgress", "failed", "current")
    }
    file = folder / "expressions.yaml"
    file.write_text(yaml.safe_dump(expressions), encoding="utf-8")
    status: str = json.loads(run(program, "--exprs", file, resource))["status"]
    return status
