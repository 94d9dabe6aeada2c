"""Which of the fourteen published nodes fit a target, and what is said where none does."""

from pathlib import Path

import pytest
import yaml

from autocompress.api.v1alpha1.target import AcceleratorSpec
from autocompress_operator.gpus import Found, Missing, find_nodes
from autocompress_operator.reading import read_node

FILE = Path(__file__).parents[1] / "cluster" / "gpu-nodes.yaml"


def nodes():
    found = []
    for raw in yaml.safe_load(FILE.read_text(encoding="utf-8"))["items"]:
        raw["metadata"] |= {
            "uid": raw["metadata"]["name"],
            "creationTimestamp": "2026-01-01T00:00:00Z",
        }
        found.append(read_node(raw))
    return found


def target(product, count=1, **fields):
    given = {"kind": "GPU", "product": product, "count": count, **fields}
    return AcceleratorSpec.model_validate_json(__import__("json").dumps(given)).to_domain()


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (target("NVIDIA-H100-80GB-HBM3"), {"h100-full"}),
        (target("NVIDIA-H100-80GB-HBM3", 8, minMemory="79Gi"), {"h100-full"}),
        (target("A100-SXM4-40GB", minMemory="38Gi", minComputeMajor=8), {"a100-old-gfd"}),
        (target("A100-SXM4-40GB-MIG-1g.5gb"), {"a100-mig-single"}),
        (target("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"), {"a100-80-mig-1g10"}),
    ],
)
def test_whole_gpus_and_named_slices_are_found(wanted, names):
    found = find_nodes(wanted, nodes())
    assert isinstance(found, Found)
    assert set(found.names) == names


@pytest.mark.parametrize(
    ("wanted", "reason", "words"),
    [
        (target("NVIDIA-B200"), "NoMatchingNode", "there are A100-SXM4-40GB, "),
        (target("NVIDIA-H100-80GB-HBM3", 16), "NoMatchingNode", "have fewer"),
        (target("NVIDIA-H100-80GB-HBM3", minMemory="90Gi"), "NoMatchingNode", "memory"),
        (target("NVIDIA-A100-SXM4-80GB"), "MigMismatch", "a100-80-mig-pending"),
    ],
)
def test_what_does_not_fit_is_said(wanted, reason, words):
    found = find_nodes(wanted, nodes())
    assert isinstance(found, Missing)
    assert found.reason == reason
    assert words in found.message


def test_a_gpu_that_is_shared_is_not_measured_on():
    shared = [
        node
        for node in nodes()
        if node.labels.get("nvidia.com/gpu.sharing-strategy") == "time-slicing"
    ]
    for node in shared:
        product = node.labels.get("nvidia.com/gpu.product", "")
        if product:
            assert isinstance(find_nodes(target(product), [node]), Missing), node.name


def test_without_any_gpu_node_that_is_said():
    found = find_nodes(target("NVIDIA-L40S"), [])
    assert isinstance(found, Missing)
    assert "no node has this label" in found.message
