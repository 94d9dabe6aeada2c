"""``spec.stageTemplates``, ``spec.runPolicy``: how a cluster runs stages; they decide no result."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from autocompress.api.v1alpha1.fields import DnsName, Give, Seconds, SecondsOrZero, Spec, refuse
from autocompress.api.v1alpha1.pods import (
    RESERVED_KEYS,
    Annotations,
    EnvVar,
    ImageName,
    ImagePullPolicy,
    Labels,
    PullSecret,
    ResourceClaim,
    Resources,
    Toleration,
    Volume,
    VolumeMount,
    refuse_repeated,
)

Retries = Annotated[int, Field(ge=0, le=100), Give("a whole number from 0 to 100")]


class StageName(StrEnum):
    """The four stages as a job names them."""

    PROFILE = "Profile"
    SEARCH = "Search"
    RECOVER = "Recover"
    VALIDATE = "Validate"


class StepName(StrEnum):
    """All that runs in pods before a job's end: the preflight, then the four stages."""

    PREFLIGHT = "Preflight"
    PROFILE = "Profile"
    SEARCH = "Search"
    RECOVER = "Recover"
    VALIDATE = "Validate"


class PreflightPolicy(StrEnum):
    """Whether source and artifacts are probed before GPU time is spent."""

    ENABLED = "Enabled"
    DISABLED = "Disabled"


class StageTemplate(Spec):
    """What the pods of one step get beyond the defaults."""

    name: StepName
    image: ImageName | None = None
    image_pull_policy: ImagePullPolicy | None = None
    image_pull_secrets: Annotated[tuple[PullSecret, ...], Field(max_length=8)] = ()
    resources: Resources | None = None
    resource_claims: Annotated[tuple[ResourceClaim, ...], Field(max_length=8)] = ()
    node_selector: Labels = Field(default_factory=dict)
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=32)] = ()
    volumes: Annotated[tuple[Volume, ...], Field(max_length=16)] = ()
    volume_mounts: Annotated[tuple[VolumeMount, ...], Field(max_length=16)] = ()
    env: Annotated[tuple[EnvVar, ...], Field(max_length=64)] = ()
    labels: Labels = Field(default_factory=dict)
    annotations: Annotations = Field(default_factory=dict)
    priority_class_name: DnsName | None = None
    runtime_class_name: DnsName | None = None

    @model_validator(mode="after")
    def _unique(self) -> Self:
        refuse_repeated("imagePullSecrets", "name", [s.name for s in self.image_pull_secrets])
        refuse_repeated("resourceClaims", "name", [c.name for c in self.resource_claims])
        refuse_repeated("volumes", "name", [v.name for v in self.volumes])
        refuse_repeated("volumeMounts", "mountPath", [m.mount_path for m in self.volume_mounts])
        refuse_repeated("env", "name", [variable.name for variable in self.env])
        return self

    @model_validator(mode="after")
    def _names_fit(self) -> Self:
        faults = {}
        volumes = {volume.name for volume in self.volumes}
        for index, mount in enumerate(self.volume_mounts):
            if mount.name not in volumes:
                faults[f"volumeMounts.{index}.name"] = (
                    f'got "{mount.name}"; give the name of one of volumes'
                )
        claims = {claim.name for claim in self.resource_claims}
        for index, use in enumerate(self.resources.claims if self.resources else ()):
            if use.name not in claims:
                faults[f"resources.claims.{index}.name"] = (
                    f'got "{use.name}"; give the name of one of resourceClaims'
                )
        for field, keys in (("labels", self.labels), ("annotations", self.annotations)):
            for key in keys:
                if key.startswith(RESERVED_KEYS):
                    faults[f"{field}.{key}"] = "is set by the operator itself; leave it out"
        refuse(faults)
        return self


class RunPolicy(Spec):
    """Limits on the job as a whole."""

    active_deadline_seconds: Seconds | None = None
    backoff_limit: Retries = 2
    ttl_seconds_after_finished: SecondsOrZero | None = None
    preflight: PreflightPolicy = PreflightPolicy.ENABLED
