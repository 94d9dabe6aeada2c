"""The rendered chart, as it was looked at last; UPDATE_SNAPSHOTS=1 writes the files anew."""

import os
from pathlib import Path

import pytest
import yaml
from rendering import VALUES

SNAPSHOTS = Path(__file__).parent / "snapshots"
GOOD = sorted(path.name for path in VALUES.glob("*.yaml"))


def place(found):
    return found["kind"], found["metadata"].get("namespace", ""), found["metadata"]["name"]


def shortened(found):
    """Without what other tests compare: the definition's schema, texts of ConfigMaps."""
    if found["kind"] == "CustomResourceDefinition":
        return {**found, "spec": "as in crds/"}
    if found["kind"] == "ConfigMap":
        return {**found, "data": sorted(found["data"])}
    return found


@pytest.mark.parametrize("values", GOOD)
def test_rendered_as_before(helm, values):
    objects = [shortened(found) for found in helm.objects("--values", VALUES / values)]
    objects.sort(key=place)
    text = yaml.safe_dump_all(objects, sort_keys=False, width=120)
    snapshot = SNAPSHOTS / values
    if os.environ.get("UPDATE_SNAPSHOTS"):
        snapshot.write_text(text, encoding="utf-8")
    assert text == snapshot.read_text(encoding="utf-8"), "look at it, then UPDATE_SNAPSHOTS=1"
