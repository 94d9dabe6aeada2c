"""A CompressionJob as a cluster returns it: what was asked, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, JsonValue, ValidationError

from autocompress.api.reading import check_job
from autocompress.api.v1alpha1 import API_VERSION, KIND, CompressionJob
from autocompress.api.v1alpha1.status import CompressionJobStatus, StatusPart
from autocompress.api.yaml_text import parse_yaml
from autocompress.contract.errors import DataError


@dataclass(frozen=True, kw_only=True, slots=True)
class JobObject:
    """One object. ``generation`` is that of the spec; ``deleting`` once somebody deleted it."""

    namespace: str
    name: str
    generation: int
    deleting: bool
    job: CompressionJob
    status: CompressionJobStatus


class _Metadata(StatusPart):
    name: str
    namespace: str = "default"
    generation: int = 0
    deletion_timestamp: str | None = None


class _Object(StatusPart):
    api_version: str
    kind: str
    metadata: _Metadata
    spec: dict[str, JsonValue]
    status: Annotated[CompressionJobStatus, Field(default_factory=CompressionJobStatus)]


def read_object(text: str, *, origin: str) -> JobObject:
    """Read what ``kubectl get compressionjob NAME -o yaml`` (or ``json``) prints.

    Raises:
        DataError: it is something else, or of another version than this program knows.
        SpecError: its spec is not valid here.
    """
    value = parse_yaml(text, name=origin)
    try:
        found = _Object.model_validate(value)
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(map(str, fault["loc"])) or "it"
        raise DataError(
            f"{origin} is not a CompressionJob as a cluster returns it: {where}: {fault['msg']}; "
            "export one with `kubectl get compressionjob NAME -o yaml`, and use an autocompress "
            "no older than the operator"
        ) from error
    if (found.api_version, found.kind) != (API_VERSION, KIND):
        raise DataError(
            f"{origin} is a {found.kind} of {found.api_version}; give a {KIND} of {API_VERSION}"
        )
    # The rest of the metadata is the cluster's own.
    written: JsonValue = {
        "apiVersion": found.api_version,
        "kind": found.kind,
        "metadata": {"name": found.metadata.name},
        "spec": found.spec,
    }
    return JobObject(
        namespace=found.metadata.namespace,
        name=found.metadata.name,
        generation=found.metadata.generation,
        deleting=found.metadata.deletion_timestamp is not None,
        job=check_job(written, name=origin),
        status=found.status,
    )
