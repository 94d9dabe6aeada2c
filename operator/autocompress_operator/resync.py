"""Now and then everything is looked at again, and what vanished unseen is forgotten."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Protocol

from autocompress_operator.cache import Cache
from autocompress_operator.client import ApiClient, ApiError
from autocompress_operator.reading import read_identity
from autocompress_operator.resources import CHILD_KINDS, Kind, Resource
from autocompress_operator.snapshot import ChildKind, JsonObject, Key

_NAMES_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_PAGE = "500"


class Prunable(Protocol):
    """What can be compared with a list."""

    def prune(self, listed: Collection[str], version: int) -> set[Key]:
        """See ``Shelf``."""


class Resync:
    """Compares the cache with lists of names, and has every job visited."""

    def __init__(
        self,
        *,
        client: ApiClient,
        cache: Cache,
        watched: Iterable[Resource],
        namespaces: tuple[str, ...],
        changed: Callable[[Key], None],
    ) -> None:
        self._client = client
        self._cache = cache
        self._watched = tuple(watched)
        self._namespaces: tuple[str | None, ...] = namespaces or (None,)
        self._changed = changed

    async def discover(self) -> None:
        """Find out which kinds of children the API server serves."""
        installed = {ChildKind.JOB}
        for resource in self._watched:
            kind = CHILD_KINDS.get(resource.kind)
            if kind is not None and kind is not ChildKind.JOB and await self._is_served(resource):
                installed.add(kind)
        self._cache.installed = frozenset(installed)

    async def _is_served(self, resource: Resource) -> bool:
        try:
            answer = await self._client.get(resource.root)
        except ApiError as error:
            if error.code == 404:
                return False
            raise
        served = answer.get("resources")
        return isinstance(served, list) and any(
            isinstance(one, dict) and one.get("name") == resource.kind.value for one in served
        )

    async def run(self) -> None:
        """Compare once."""
        await self.discover()
        for resource in self._watched:
            shelf = self._shelf(resource)
            if shelf is not None and self._is_installed(resource):
                for key in await self._prune(resource, shelf):
                    self._changed(key)
        for key, _ in self._cache.jobs:
            self._changed(key)

    async def everything(self) -> set[str]:
        """The uids of all that is watched now. Events aside: nothing is decided by them alone."""
        uids: set[str] = set()
        for resource in self._watched:
            if resource.kind is Kind.EVENTS or not await self._is_served(resource):
                continue
            for namespace in self._namespaces if resource.namespaced else (None,):
                _, found = await self._list(resource, namespace)
                uids |= found
        return uids

    def _is_installed(self, resource: Resource) -> bool:
        kind = CHILD_KINDS.get(resource.kind)
        return kind is None or kind in self._cache.installed

    def _shelf(self, resource: Resource) -> Prunable | None:
        """Nodes are few and change often; Events and Workloads go with what they are about."""
        match resource.kind:
            case Kind.COMPRESSION_JOBS:
                return self._cache.jobs
            case Kind.PODS:
                return self._cache.pods
            case kind if kind in CHILD_KINDS:
                return self._cache.children[CHILD_KINDS[kind]]
            case _:
                return None

    async def _prune(self, resource: Resource, shelf: Prunable) -> set[Key]:
        listed: set[str] = set()
        versions: list[int] = []
        for namespace in self._namespaces:
            version, uids = await self._list(resource, namespace)
            listed |= uids
            versions.append(version)
        # What is newer than the oldest of the lists was made while they were read.
        return shelf.prune(listed, min(versions))

    async def _list(self, resource: Resource, namespace: str | None) -> tuple[int, set[str]]:
        query = {"limit": _PAGE}
        if resource.label_selector:
            query["labelSelector"] = resource.label_selector
        uids: set[str] = set()
        while True:
            answer = await self._client.request(
                "GET", resource.path(namespace), accept=_NAMES_ONLY, query=query
            )
            items = answer.get("items")
            uids |= {read_identity(item).uid for item in (items if isinstance(items, list) else [])}
            version, following = _page(answer)
            if not following:
                return version, uids
            query["continue"] = following


def _page(answer: JsonObject) -> tuple[int, str]:
    metadata = answer.get("metadata")
    if not isinstance(metadata, dict):
        raise ApiError(500, "a list without metadata", ())
    return int(str(metadata.get("resourceVersion", "0"))), str(metadata.get("continue") or "")
