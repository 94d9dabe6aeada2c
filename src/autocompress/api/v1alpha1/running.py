"""``spec.stageTemplates``, ``spec.runPolicy``: how a cluster runs stages; they decide no result."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from autocompress.api.v1alpha1.fields import QUANTITY, Give, Seconds, SecondsOrZero, Spec, Text

Amount = Annotated[
    Annotated[str, StringConstraints(max_length=32, pattern=f"^(?:{QUANTITY})$")]
    | Annotated[int, Field(ge=0)],
    Give("a Kubernetes quantity, for example 8, 500m or 16Gi"),
]
LabelKey = Annotated[
    str,
    StringConstraints(
        max_length=317, pattern=r"^([a-z0-9.-]+/)?[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$"
    ),
    Give("a Kubernetes label or resource name, for example nvidia.com/gpu"),
]
LabelValue = Annotated[
    str,
    StringConstraints(max_length=63, pattern=r"^([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)?$"),
    Give("a Kubernetes label value"),
]
Retries = Annotated[int, Field(ge=0, le=100), Give("a whole number from 0 to 100")]
Amounts = Annotated[dict[LabelKey, Amount], Field(max_length=32)]


class StageName(StrEnum):
    """The four stages as a job names them."""

    PROFILE = "Profile"
    SEARCH = "Search"
    RECOVER = "Recover"
    VALIDATE = "Validate"


class TolerationOperator(StrEnum):
    """How a toleration compares."""

    EXISTS = "Exists"
    EQUAL = "Equal"


class TaintEffect(StrEnum):
    """What a taint does."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Toleration(Spec):
    """As of a pod."""

    key: LabelKey | None = None
    operator: TolerationOperator = TolerationOperator.EQUAL
    value: LabelValue | None = None
    effect: TaintEffect | None = None
    toleration_seconds: SecondsOrZero | None = None


class Resources(Spec):
    """As of a container."""

    requests: Amounts = Field(default_factory=dict)
    limits: Amounts = Field(default_factory=dict)


class StageTemplate(Spec):
    """What one stage's pods get beyond the defaults."""

    name: StageName
    image: Text | None = None
    resources: Resources | None = None
    node_selector: Annotated[dict[LabelKey, LabelValue], Field(max_length=32)] = Field(
        default_factory=dict
    )
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=32)] = ()


class RunPolicy(Spec):
    """Limits on the job as a whole."""

    active_deadline_seconds: Seconds | None = None
    backoff_limit: Retries = 2
    ttl_seconds_after_finished: SecondsOrZero | None = None
