"""CompressionJobs of a cluster: one object, or the table that the cluster itself makes of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from pydantic import JsonValue

from autocompress.api.names import PLURAL, VERSION
from autocompress.api.v1alpha1 import GROUP
from autocompress.api.v1alpha1.status import StatusPart
from autocompress.cluster.client import Cluster, NotFoundError
from autocompress.contract.errors import UnavailableError

#: Asks for what ``kubectl get`` shows: the columns of the CRD, worked out by the server.
_AS_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
_WATCH_SECONDS = 300


class Width(StrEnum):
    """Which columns are wanted."""

    NARROW = "narrow"
    WIDE = "wide"


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One job as texts; ``gone`` once it was deleted."""

    namespace: str
    cells: tuple[str, ...]
    gone: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Column names and rows; ``version`` is where a watch goes on."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    version: str


class _Column(StatusPart):
    name: str
    priority: int = 0


class _Metadata(StatusPart):
    namespace: str = ""
    resource_version: str = ""


class _Partial(StatusPart):
    metadata: _Metadata = _Metadata()


class _Row(StatusPart):
    cells: tuple[JsonValue, ...]
    object: _Partial = _Partial()


class _Table(StatusPart):
    metadata: _Metadata = _Metadata()
    #: A watch tells them with its first row only.
    column_definitions: tuple[_Column, ...] | None = None
    rows: tuple[_Row, ...] = ()


class _Event(StatusPart):
    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: JsonValue


class _Problem(StatusPart):
    code: int = 0
    message: str = ""


def read(cluster: Cluster, namespace: str, name: str) -> str:
    """One CompressionJob as JSON.

    Raises:
        NotFoundError: there is none of that name, or the cluster does not know CompressionJobs.
        AccessError, UnavailableError: as ``Cluster.get``.
    """
    try:
        return cluster.get(f"{_path(namespace)}/{name}").decode()
    except NotFoundError as error:
        if f'"{name}" not found' not in str(error):
            raise _not_installed(cluster) from error
        raise NotFoundError(
            f"there is no compressionjob {name} in namespace {namespace} of {cluster.server}; "
            "`autocompress jobs -A` lists them all"
        ) from error


def read_all(cluster: Cluster, namespace: str | None) -> str:
    """The list of all (``namespace`` None: of every namespace) as JSON.

    Raises:
        NotFoundError, AccessError, UnavailableError: as ``read``.
    """
    try:
        return cluster.get(_path(namespace)).decode()
    except NotFoundError as error:
        raise _not_installed(cluster) from error


def table(cluster: Cluster, namespace: str | None, width: Width) -> Table:
    """What ``kubectl get compressionjobs`` shows.

    Raises:
        NotFoundError, AccessError, UnavailableError: as ``read``.
    """
    try:
        found = _Table.model_validate_json(cluster.get(_path(namespace), accept=_AS_TABLE))
    except NotFoundError as error:
        raise _not_installed(cluster) from error
    columns = found.column_definitions or ()
    return Table(
        columns=tuple(columns[place].name for place in _places(columns, width)),
        rows=tuple(_row(row, columns, width, gone=False) for row in found.rows),
        version=found.metadata.resource_version,
    )


def changes(cluster: Cluster, namespace: str | None, width: Width, version: str) -> Iterator[Row]:
    """Rows as they change after ``version``, until the caller stops.

    Raises:
        AccessError, UnavailableError: as ``Cluster.lines``.
    """
    columns: tuple[_Column, ...] = ()
    for event in events(cluster, namespace, version, accept=_AS_TABLE):
        found = _Table.model_validate(event.object)
        columns = found.column_definitions or columns
        for row in found.rows:
            yield _row(row, columns, width, gone=event.type == "DELETED")


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """ADDED, MODIFIED or DELETED, and the object as the server sent it."""

    type: str
    object: JsonValue


def events(
    cluster: Cluster, namespace: str | None, version: str, *, accept: str = "application/json"
) -> Iterator[Event]:
    """What happens to jobs after ``version`` (empty: all that are there, then what happens).

    A watch that the server ends is taken up where it was; one whose version is too old begins
    anew with all that are there.
    """
    while True:
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(_WATCH_SECONDS),
        }
        lines = cluster.lines(
            _path(namespace), query, accept=accept, read_seconds=_WATCH_SECONDS + 30
        )
        for line in lines:
            event = _Event.model_validate_json(line)
            if event.type == "ERROR":
                problem = _Problem.model_validate(event.object)
                if problem.code != 410:
                    raise UnavailableError(f"{cluster.server}: {problem.message}; try again")
                version = ""
                break
            version = _version(event.object) or version
            if event.type != "BOOKMARK":
                yield Event(type=event.type, object=event.object)


def _version(value: JsonValue) -> str:
    """The version of an object, or of the one row of a table."""
    found = _Partial.model_validate(value).metadata.resource_version
    if not found:
        rows = _Table.model_validate(value).rows
        found = rows[-1].object.metadata.resource_version if rows else ""
    return found


def _row(row: _Row, columns: tuple[_Column, ...], width: Width, *, gone: bool) -> Row:
    return Row(
        namespace=row.object.metadata.namespace,
        cells=tuple(_text(row.cells[place]) for place in _places(columns, width)),
        gone=gone,
    )


def _places(columns: tuple[_Column, ...], width: Width) -> list[int]:
    return [
        place for place, column in enumerate(columns) if width is Width.WIDE or not column.priority
    ]


def _text(cell: JsonValue) -> str:
    if cell is None:
        return ""
    return cell if isinstance(cell, str) else json.dumps(cell)


def _path(namespace: str | None) -> str:
    scope = f"/namespaces/{namespace}" if namespace else ""
    return f"/apis/{GROUP}/{VERSION}{scope}/{PLURAL}"


def _not_installed(cluster: Cluster) -> NotFoundError:
    return NotFoundError(
        f"{cluster.server} does not know CompressionJobs; install the chart: helm install "
        "autocompress charts/autocompress -n autocompress --create-namespace"
    )
