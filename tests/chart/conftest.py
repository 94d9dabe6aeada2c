"""Programs and clusters for the tests of the chart; without them, tests are skipped."""

import os
import sys
from pathlib import Path

import pytest
from programs import FOLDER, Programs
from rendering import Helm

sys.path.insert(0, str(Path(__file__).parents[1] / "cluster"))
from clusters import MISSING, VERSIONS, Clusters


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """``program(name)``: its path; the test is skipped where it is nowhere."""
    programs = Programs(unpacked=tmp_path_factory.mktemp("programs"))

    def find(name):
        found = programs.find(name)
        if found is None:
            pytest.skip(f"needs {name}: put it into PATH, or set {FOLDER} to a folder that has it")
        return found

    return find


@pytest.fixture(scope="session")
def helm(program):
    return Helm(program("helm"))


@pytest.fixture(scope="session", params=list(VERSIONS))
def bare_cluster(request, tmp_path_factory):
    """An API server alone, of both ends of the version range, without anything of ours."""
    if not os.environ.get(FOLDER):
        pytest.skip(f"starts API servers of its own: {MISSING.partition(', or')[0]}")
    started = Clusters(root=tmp_path_factory.mktemp("clusters"))
    yield started.at("api", version=request.param)
    started.close()
