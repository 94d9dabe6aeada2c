"""Settings of the operator, read once from the environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

PREFIX = "AUTOCOMPRESS_"

_SEPARATOR = re.compile(r"[\s,]+")


class SettingsError(Exception):
    """The environment does not describe an operator; every fault is in the message."""


class Switch(StrEnum):
    """Whether a part of the operator is on."""

    ENABLED = "Enabled"
    DISABLED = "Disabled"


class LogLevel(StrEnum):
    """The least level that is logged."""

    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"


class PullPolicy(StrEnum):
    """When a node fetches an image."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


def _words(text: object) -> object:
    return [word for word in _SEPARATOR.split(text) if word] if isinstance(text, str) else text


Words = Annotated[tuple[str, ...], BeforeValidator(_words)]
Image = Annotated[str, Field(min_length=1, max_length=512)]
UserId = Annotated[
    Annotated[int, Field(ge=1)] | None,
    BeforeValidator(lambda text: None if text == "Image" else text),
]
Port = Annotated[int, Field(ge=0, le=65535)]
Seconds = Annotated[int, Field(ge=1, le=86_400)]


class Settings(BaseModel):
    """Each field is the environment variable ``AUTOCOMPRESS_<FIELD>`` in capitals."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: Namespaces to serve; none means all of them.
    watch_namespaces: Words = ()

    #: Runs preflight and artifact cleanup too.
    operator_image: Image
    stage_image_cpu: Image
    stage_image_cuda: Image
    stage_image_tensorrt_llm: Image
    operator_image_pull_policy: PullPolicy = PullPolicy.IF_NOT_PRESENT
    stage_image_pull_policy: PullPolicy = PullPolicy.IF_NOT_PRESENT

    #: What the operator does and may read beside its own objects, Jobs, Pods and Events.
    preflight: Switch = Switch.ENABLED
    nodes: Switch = Switch.ENABLED
    kueue: Switch = Switch.DISABLED
    jobset: Switch = Switch.DISABLED
    trainer: Switch = Switch.DISABLED

    #: Port 0 takes any that is free.
    metrics_port: Port = 9090
    liveness_port: Port = 8080
    metrics_per_job: Switch = Switch.ENABLED
    metrics_max_jobs: Annotated[int, Field(ge=0)] = 2000
    log_level: LogLevel = LogLevel.INFO

    #: Every object is looked at again, and what vanished unseen is dropped, at this pace.
    resync_seconds: Seconds = 300
    #: How often running stages are asked how far they are.
    progress_seconds: Seconds = 15
    #: How long an image may fail to be pulled, or a container to start, before the stage fails.
    start_grace_seconds: Seconds = 300
    #: How long a result may stay out of sight after its Job completed before the stage is rerun.
    report_grace_seconds: Seconds = 30
    #: Without an event or bookmark for this long the operator counts as stale.
    stale_seconds: Seconds = 220
    #: How long the removal of artifacts may take before it is given up.
    cleanup_seconds: Seconds = 900
    #: What a stage has to write a checkpoint after it was asked to stop.
    stage_stop_seconds: Seconds = 120
    #: User and group of stage pods; Image leaves both to the image (OpenShift picks its own).
    stage_user_id: UserId = 65532
    #: Keys that are worked on at the same time.
    workers: Annotated[int, Field(ge=1, le=64)] = 8


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Settings from environment variables; others than ours, and empty ones, are ignored.

    Raises:
        SettingsError: every variable that is missing or wrong, a line each.
    """
    known = {f"{PREFIX}{name.upper()}": name for name in Settings.model_fields}
    given = {known[name]: text for name, text in environment.items() if name in known and text}
    try:
        return Settings.model_validate(given)
    except ValidationError as error:
        lines = [
            f"{PREFIX}{str(fault['loc'][0]).upper()}: "
            + (
                "is missing; set it"
                if fault["type"] == "missing"
                else f"got {fault['input']!r}; {fault['msg']}"
            )
            for fault in error.errors()
        ]
        raise SettingsError("\n".join(["The environment is not complete:", *lines])) from error
