"""What a stage's pods may be given: a typed subset of a Kubernetes pod, spelled as there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from autocompress.api.v1alpha1.fields import (
    QUANTITY,
    QUANTITY_CHARACTERS,
    DnsName,
    Give,
    SecondsOrZero,
    Spec,
    refuse,
)

Amount = Annotated[
    Annotated[str, StringConstraints(max_length=QUANTITY_CHARACTERS, pattern=f"^(?:{QUANTITY})$")]
    | Annotated[int, Field(ge=0)],
    Give("a Kubernetes quantity, for example 8, 500m or 16Gi"),
]
LabelKey = Annotated[
    str,
    StringConstraints(
        max_length=317,
        pattern=r"^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$",
    ),
    Give("a Kubernetes label or resource name, for example nvidia.com/gpu"),
]
LabelValue = Annotated[
    str,
    StringConstraints(max_length=63, pattern=r"^([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)?$"),
    Give("a Kubernetes label value"),
]
LongText = Annotated[
    str, StringConstraints(max_length=4096), Give("a text of at most 4096 characters, in quotes")
]
PartName = Annotated[
    str,
    StringConstraints(max_length=63, pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"),
    Give("at most 63 lower-case letters, digits and -"),
]
EnvName = Annotated[
    str,
    StringConstraints(max_length=253, pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$"),
    Give("the name of an environment variable, for example HTTPS_PROXY"),
]
KeyName = Annotated[
    str,
    StringConstraints(max_length=253, pattern=r"^[A-Za-z0-9._-]+$"),
    Give("a key of the Secret or ConfigMap"),
]
MountPath = Annotated[
    str,
    StringConstraints(max_length=255, pattern=r"^/[^:\x00-\x1f]*$"),
    Give("an absolute path in the container, for example /data"),
]
SubPath = Annotated[
    str,
    StringConstraints(min_length=1, max_length=255, pattern=r"^[^/\x00-\x1f][^\x00-\x1f]*$"),
    Give("a relative path in the volume"),
]
FieldPath = Annotated[
    str,
    StringConstraints(max_length=255, pattern=r"^(metadata|spec|status)\.[A-Za-z0-9'\[\]./_-]+$"),
    Give("a field of the pod, for example metadata.namespace or status.podIP"),
]
ImageName = Annotated[
    str,
    StringConstraints(max_length=512, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/@-]*$"),
    Give("an image, for example registry.example/stage@sha256:... or registry.example/stage:1.0"),
]
DriverName = Annotated[
    str,
    StringConstraints(max_length=63, pattern=r"^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$"),
    Give("the name of a CSI driver"),
]

Amounts = Annotated[dict[LabelKey, Amount], Field(max_length=32)]
Labels = Annotated[dict[LabelKey, LabelValue], Field(max_length=32)]
Annotations = Annotated[dict[LabelKey, LongText], Field(max_length=32)]

#: Names and paths that the operator uses itself.
RESERVED_VOLUMES = "autocompress-"
RESERVED_PATHS = ("/etc/autocompress", "/var/cache/autocompress", "/dev/termination-log")
RESERVED_KEYS = ("autocompress.dev/", "app.kubernetes.io/")


class TolerationOperator(StrEnum):
    """How a toleration compares."""

    EXISTS = "Exists"
    EQUAL = "Equal"


class TaintEffect(StrEnum):
    """What a taint does."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class ImagePullPolicy(StrEnum):
    """When a node fetches an image."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class EmptyDirMedium(StrEnum):
    """What an empty folder is kept in, where it is not the node's disk."""

    MEMORY = "Memory"


class Toleration(Spec):
    """As of a pod."""

    key: LabelKey | None = None
    operator: TolerationOperator = TolerationOperator.EQUAL
    value: LabelValue | None = None
    effect: TaintEffect | None = None
    toleration_seconds: SecondsOrZero | None = None

    @model_validator(mode="after")
    def _as_a_pod_has_it(self) -> Self:
        faults = {}
        if self.key is None and self.operator is TolerationOperator.EQUAL:
            faults["key"] = "is missing; give the key of the taint, or operator: Exists"
        if self.value and self.operator is TolerationOperator.EXISTS:
            faults["value"] = "does not apply to operator Exists; leave it out"
        if self.toleration_seconds is not None and self.effect is not TaintEffect.NO_EXECUTE:
            faults["tolerationSeconds"] = "applies to effect NoExecute alone; leave it out"
        refuse(faults)
        return self


class ClaimUse(Spec):
    """A pod's resource claim that the container uses; one request of it, or all."""

    name: PartName
    request: PartName | None = None


class Resources(Spec):
    """As of a container."""

    requests: Amounts = Field(default_factory=dict)
    limits: Amounts = Field(default_factory=dict)
    claims: Annotated[tuple[ClaimUse, ...], Field(max_length=8)] = ()

    @model_validator(mode="after")
    def _unique(self) -> Self:
        refuse_repeated("claims", "name", [claim.name for claim in self.claims])
        return self


class ResourceClaim(Spec):
    """A claim on devices (dynamic resource allocation) by the name of it or of its template."""

    name: PartName
    resource_claim_name: DnsName | None = None
    resource_claim_template_name: DnsName | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if (self.resource_claim_name is None) == (self.resource_claim_template_name is None):
            refuse({"": "give exactly one of resourceClaimName and resourceClaimTemplateName"})
        return self


class KeyRef(Spec):
    """A key of a Secret or ConfigMap in the job's namespace."""

    name: DnsName
    key: KeyName
    optional: bool = False


class FieldRef(Spec):
    """A field of the pod."""

    field_path: FieldPath


class EnvSource(Spec):
    """Where the value of an environment variable comes from."""

    secret_key_ref: KeyRef | None = None
    config_map_key_ref: KeyRef | None = None
    field_ref: FieldRef | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        given = (self.secret_key_ref, self.config_map_key_ref, self.field_ref)
        if sum(source is not None for source in given) != 1:
            refuse({"": "give exactly one of secretKeyRef, configMapKeyRef and fieldRef"})
        return self


class EnvVar(Spec):
    """As of a container; replaces one of the same name that the operator sets."""

    name: EnvName
    value: LongText | None = None
    value_from: EnvSource | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if (self.value is None) == (self.value_from is None):
            refuse({"": "give exactly one of value and valueFrom"})
        return self


class ConfigMapVolume(Spec):
    """The keys of a ConfigMap as files."""

    name: DnsName
    optional: bool = False


class SecretVolume(Spec):
    """The keys of a Secret as files."""

    secret_name: DnsName
    optional: bool = False


class EmptyDirVolume(Spec):
    """A folder that lives as long as the pod."""

    medium: EmptyDirMedium | None = None
    size_limit: Amount | None = None


class ClaimVolume(Spec):
    """A persistent volume."""

    claim_name: DnsName
    read_only: bool = False


class CsiVolume(Spec):
    """A volume that a CSI driver makes for the pod."""

    driver: DriverName
    read_only: bool = False
    volume_attributes: Annotations = Field(default_factory=dict)


class Volume(Spec):
    """As of a pod, of the kinds that Pod Security ``restricted`` allows."""

    name: PartName
    config_map: ConfigMapVolume | None = None
    secret: SecretVolume | None = None
    empty_dir: EmptyDirVolume | None = None
    persistent_volume_claim: ClaimVolume | None = None
    csi: CsiVolume | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        given = (
            self.config_map,
            self.secret,
            self.empty_dir,
            self.persistent_volume_claim,
            self.csi,
        )
        if self.name.startswith(RESERVED_VOLUMES):
            refuse({"name": f"begins with {RESERVED_VOLUMES}, which the operator uses itself"})
        if sum(source is not None for source in given) != 1:
            refuse(
                {
                    "": "give exactly one of configMap, secret, emptyDir, persistentVolumeClaim "
                    "and csi"
                }
            )
        return self


class VolumeMount(Spec):
    """As of a container."""

    name: PartName
    mount_path: MountPath
    sub_path: SubPath | None = None
    read_only: bool = False

    @model_validator(mode="after")
    def _elsewhere(self) -> Self:
        for path in RESERVED_PATHS:
            if self.mount_path == path or self.mount_path.startswith(f"{path}/"):
                refuse({"mountPath": f"is in {path}, which the operator uses itself"})
        if ".." in (self.sub_path or "").split("/"):
            refuse({"subPath": "leads out of the volume; leave .. out"})
        return self


class PullSecret(Spec):
    """A Secret with credentials for an image registry."""

    name: DnsName


def refuse_repeated(field: str, key: str, values: Sequence[Hashable]) -> None:
    """Fail where an entry of a list has the key of an earlier one.

    Raises:
        ValidationError: naming each later entry.
    """
    faults = {}
    seen: Counter[Hashable] = Counter()
    for index, value in enumerate(values):
        if seen[value]:
            faults[f"{field}.{index}.{key}"] = f'got "{value}" again; give each {key} one entry'
        seen[value] += 1
    refuse(faults)
