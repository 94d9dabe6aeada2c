"""Clusters at the levels that tests need, started when first asked for and stopped at the end.

Where neither programs nor a kubeconfig are named, these tests are skipped.
"""

import os
import signal
from pathlib import Path

import node_stack
import pytest
import yaml
from clusters import MISSING, PROGRAMS, VERSIONS, Clusters, add_node, install_crd, make_namespace

HERE = Path(__file__).parent
NODES = HERE / "gpu-nodes.yaml"


def pytest_configure():
    """A run that is asked to stop ends like one that is interrupted: its clusters are stopped."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    """Mark everything here, and skip what needs a cluster that is not there."""
    there = os.environ.get(PROGRAMS) or os.environ.get("KUBECONFIG")
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.cluster)
            if not there:
                item.add_marker(pytest.mark.skip(reason=MISSING))


@pytest.fixture(scope="session")
def clusters(tmp_path_factory):
    """``clusters.at(level, *options, version=...)``."""
    started = Clusters(root=tmp_path_factory.mktemp("clusters"))
    yield started
    started.close()


@pytest.fixture(scope="session", params=list(VERSIONS))
def api_cluster(request, clusters):
    """An API server alone, of every supported end of the version range, with our resource."""
    if not os.environ.get(PROGRAMS) and request.param != "1.34":
        pytest.skip("KUBECONFIG names one cluster, which the other tests of this kind use")
    cluster = clusters.at("api", version=request.param)
    install_crd(cluster.api)
    yield cluster
    clusters.down(cluster)


@pytest.fixture(scope="session")
def control_cluster(clusters):
    """With controllers and scheduler: Jobs make pods, which stay pending."""
    return _with_crd(clusters.at("control"))


@pytest.fixture(scope="session")
def kwok_cluster(clusters):
    """With played pods on fourteen nodes: whole and shared GPUs, slices, nodes without a GPU."""
    cluster = _with_crd(clusters.at("kwok"))
    for node in yaml.safe_load(NODES.read_text(encoding="utf-8"))["items"]:
        add_node(cluster.api, node)
    return cluster


@pytest.fixture(scope="session")
def node_cluster(clusters):
    """With two nodes that run pods, each with eight stand-in GPUs."""
    options = ("--nodes", "2", "--gpus", "8", "--product", "NVIDIA-H100-80GB-HBM3")
    return _with_crd(clusters.at("node", *options))


@pytest.fixture(scope="session")
def stack(request, tmp_path_factory):
    """autocompress with a MinIO on the cluster with nodes, installed by its chart."""
    node_stack.archives()  # before a cluster is started for nothing
    cluster = request.getfixturevalue("node_cluster")
    installed = node_stack.install(cluster, tmp_path_factory.mktemp("stack"))
    yield installed
    if cluster.folder is None:
        node_stack.uninstall(installed)


@pytest.fixture(scope="session")
def first_job(stack):
    """What was seen of the first job, which leaves the results that others find in the store."""
    return node_stack.run_first(stack)


def _with_crd(cluster):
    install_crd(cluster.api)
    return cluster


@pytest.fixture
def api(api_cluster):
    """A connection to the API server."""
    return api_cluster.api


@pytest.fixture
def namespace(api):
    """A namespace of the test's own."""
    name = make_namespace(api)
    yield name
    api.delete(f"/api/v1/namespaces/{name}")
