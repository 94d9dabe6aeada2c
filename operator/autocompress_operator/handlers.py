"""kopf glue: watch events into the store, and the jobs that they concern into the queue."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import cast

import kopf
from pydantic import JsonValue

from autocompress_operator.reading import UnreadableError
from autocompress_operator.resources import Resource
from autocompress_operator.snapshot import Key
from autocompress_operator.store import Store

logger = logging.getLogger(__name__)


class Handlers:
    """Registered for every kind that is watched; called for every version of an object."""

    def __init__(
        self, store: Store, *, changed: Callable[[Key], None], saw: Callable[[str], None]
    ) -> None:
        self._store = store
        self._changed = changed
        self._saw = saw

    def register(self, registry: kopf.OperatorRegistry, watched: Iterable[Resource]) -> None:
        """Register event handlers."""
        for resource in watched:
            place = (resource.group, resource.version, resource.kind.value)
            name = resource.kind.value
            kopf.on.event(*place, id=name, registry=registry)(partial(self.arrived, of=resource))

    async def arrived(self, *, event: kopf.RawEvent, of: Resource, **_: object) -> None:
        """A version of an object, or its end."""
        raw = cast(JsonValue, event["object"])
        take_in = self._store.drop if event["type"] == "DELETED" else self._store.put
        try:
            changed = take_in(of.kind, raw)
        except UnreadableError as error:
            logger.error("%s %s: %s", of.kind, event["object"]["metadata"]["name"], error)
            changed = frozenset()
        for key in changed:
            self._changed(key)
        # Also of what cannot be read: nothing more will come of it.
        self._saw(event["object"]["metadata"]["uid"])
