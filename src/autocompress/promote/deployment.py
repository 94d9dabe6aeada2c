"""What is to be served and how, put together from a job that ended well. Pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from autocompress.api.gpu_nodes import GPU_RESOURCE
from autocompress.api.names import (
    ANNOTATION_BUDGET,
    ANNOTATION_MODEL_DIGEST,
    ANNOTATION_PROMOTED_FROM,
    ANNOTATION_QUALITY,
)
from autocompress.api.v1alpha1.pods import Resources
from autocompress.api.v1alpha1.running import StageName, StageTemplate, StepName
from autocompress.contract.errors import SpecError
from autocompress.domain.budget import Metric
from autocompress.domain.deployment import (
    Accelerator,
    AcceleratorKind,
    EngineName,
    Target,
    Workload,
)
from autocompress.engines.tensorrt_llm import arguments as tensorrt_llm
from autocompress.engines.vllm import arguments as vllm
from autocompress.promote.job_object import JobObject
from autocompress.promote.verdict import Proven

_NAME = re.compile(r"[a-z]([a-z0-9-]{0,48}[a-z0-9])?")

#: What an engine's front end and scheduler take on a CPU beside the measured worker.
_FRONT_END_BYTES = 2 << 30
_CPUS = "2"


@dataclass(frozen=True, kw_only=True, slots=True)
class Overrides:
    """What a person says beside the job; None leaves it to the job."""

    name: str | None = None
    image: str | None = None
    cpu: str | None = None
    memory: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Storage:
    """Where the model lies, and the Secret (in the serving namespace) that opens it."""

    uri: str
    digest: str
    endpoint: str | None
    secret: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Deployment:
    """One model server.

    ``template`` is what the pods that measured the model got; ``requests`` and ``limits`` are those
    it was measured under, as far as the job says.
    """

    name: str
    job: str
    image: str
    storage: Storage
    engine: EngineName
    engine_arguments: tuple[str, ...]
    accelerator: Accelerator
    annotations: Mapping[str, str]
    requests: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)
    template: StageTemplate | None = None

    def command(self, folder: str, *, port: int) -> tuple[str, ...]:
        """The server's command line on the model in ``folder``."""
        listen = ("--host", "0.0.0.0", "--port", str(port))  # in a pod
        if self.engine is EngineName.TENSORRT_LLM:
            return ("trtllm-serve", folder, *listen, *self.engine_arguments)
        served = ("--served-model-name", self.name)
        return ("autocompress", "serve", folder, *listen, *served, *self.engine_arguments)


def plan_deployment(found: JobObject, proven: Proven, overrides: Overrides) -> Deployment:
    """The deployment that was measured.

    Raises:
        SpecError: an override is malformed, or something must be said that the job does not say.
    """
    spec = found.job.spec
    target, workload = spec.target.to_domain(), spec.target.workload.to_domain()
    arguments = _engine_arguments(target)(target, workload)
    template = next((t for t in spec.stage_templates if t.name is StepName.VALIDATE), None)
    requests, limits = _resources(target, template, proven, overrides)
    artifacts = spec.artifacts
    secret = artifacts.credentials_secret_ref if artifacts else None
    return Deployment(
        name=_serving_name(found, overrides),
        job=f"{found.namespace}/{found.name}",
        image=_image(found, overrides),
        storage=Storage(
            uri=proven.result.model_uri.rstrip("/"),
            digest=proven.result.digest,
            endpoint=artifacts.endpoint if artifacts else None,
            secret=secret.name if secret else None,
        ),
        engine=target.engine.name,
        engine_arguments=arguments,
        accelerator=target.accelerator,
        annotations=_annotations(found, proven),
        requests=requests,
        limits=limits,
        template=template,
    )


def _engine_arguments(target: Target) -> Callable[[Target, Workload], tuple[str, ...]]:
    known = {
        EngineName.VLLM: vllm.deployment_arguments,
        EngineName.TENSORRT_LLM: tensorrt_llm.deployment_arguments,
    }
    found = known.get(target.engine.name)
    if found is None:
        raise SpecError(
            f"spec.target.engine.name: {target.engine.name.value}: is no server; a model measured "
            f"with {' or '.join(name.value for name in known)} can be promoted"
        )
    return found


def _serving_name(found: JobObject, overrides: Overrides) -> str:
    name = overrides.name or found.name
    if not _NAME.fullmatch(name):
        raise SpecError(
            f"--name {name}: give at most 50 lower-case letters, digits and -, beginning with a "
            "letter"
        )
    return name


def _image(found: JobObject, overrides: Overrides) -> str:
    if overrides.image:
        return overrides.image
    resolved = found.status.resolved
    image = resolved.images.get(StageName.VALIDATE) if resolved else None
    # A node that was given its image as a file knows it by the digest alone.
    if image is None or image.startswith("sha256:"):
        raise SpecError(
            f"status.resolved.images of {found.namespace}/{found.name} does not name the image "
            "that the model was measured with; give it with --image"
        )
    return image


def _resources(
    target: Target, template: StageTemplate | None, proven: Proven, overrides: Overrides
) -> tuple[dict[str, str], dict[str, str]]:
    given = template.resources if template and template.resources else Resources()
    requests = {name: str(amount) for name, amount in given.requests.items()}
    limits = {name: str(amount) for name, amount in given.limits.items()}
    measured = _measured_memory(target, proven)
    for name, override, default in (
        ("cpu", overrides.cpu, _CPUS),
        ("memory", overrides.memory, measured),
    ):
        if override:
            requests[name] = override
            limits.pop(name, None)
        elif name not in requests and name not in limits and default:
            requests[name] = default
    named = given.claims or any(name.startswith("nvidia.com/") for name in (*requests, *limits))
    if target.accelerator.kind is AcceleratorKind.GPU and not named:
        limits[GPU_RESOURCE] = str(target.accelerator.count)
    return requests, limits


def _measured_memory(target: Target, proven: Proven) -> str | None:
    """What the engine needs in all; known of a CPU, where the device's memory is the host's."""
    if target.accelerator.kind is not AcceleratorKind.CPU:
        return None
    for limit in proven.limits:
        if limit.name == Metric.MEMORY.value and limit.measured is not None:
            mebibytes = math.ceil((float(limit.measured) + _FRONT_END_BYTES) / (1 << 20))
            return f"{mebibytes}Mi"
    return None


def _annotations(found: JobObject, proven: Proven) -> dict[str, str]:
    limits = [
        {
            "name": limit.name,
            "unit": limit.unit,
            "limit": limit.limit,
            "measured": limit.measured,
            "utilizationPercent": limit.utilization_percent,
        }
        for limit in proven.limits
    ]
    quality = {
        "suite": proven.quality.suite,
        "baseline": proven.quality.baseline,
        "measured": proven.quality.measured,
        "retentionPercent": proven.quality.retention_percent,
    }
    return {
        ANNOTATION_PROMOTED_FROM: f"{found.namespace}/{found.name}",
        ANNOTATION_MODEL_DIGEST: proven.result.digest,
        ANNOTATION_BUDGET: json.dumps(limits),
        ANNOTATION_QUALITY: json.dumps(quality),
    }
