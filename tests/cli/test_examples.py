"""The jobs in examples/ are valid, and say what they claim."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from autocompress.api.placement import require_cluster
from autocompress.api.reading import read_job_file

EXAMPLES = Path(__file__).parents[2] / "examples"
ON_A_CLUSTER = sorted((EXAMPLES / "cluster").glob("*.yaml"))


@pytest.mark.parametrize("path", ON_A_CLUSTER, ids=lambda path: path.name)
def test_a_cluster_can_run_it(path: Path) -> None:
    require_cluster(read_job_file(path))


@pytest.mark.parametrize("field", ["source", "target"])
def test_the_example_for_one_machine_is_the_one_for_a_cluster(field: str) -> None:
    name = "smollm2-interactive.yaml"
    here, there = (
        yaml.safe_load(path.read_text())["spec"]
        for path in (EXAMPLES / name, EXAMPLES / "cluster" / name)
    )
    assert here[field] == there[field]
