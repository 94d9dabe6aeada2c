"""Programs for the tests of the chart; tests whose program is missing are skipped."""

import pytest
from programs import FOLDER, Programs
from rendering import Helm


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
