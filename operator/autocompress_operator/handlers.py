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
    """Registered for every kind that is watched.

    kopf calls index functions for every version of an object, at the start for all objects before
    any other handler: they fill the store. The first other handler thus says that it is full.
    """

    def __init__(
        self, store: Store, *, changed: Callable[[Key], None], filled: Callable[[], None]
    ) -> None:
        self._store = store
        self._changed = changed
        self._filled = filled

    def register(self, registry: kopf.OperatorRegistry, watched: Iterable[Resource]) -> None:
        """Register index functions and event handlers."""
        for resource in watched:
            place = (resource.group, resource.version, resource.kind.value)
            name = resource.kind.value
            kopf.index(*place, id=name, registry=registry)(partial(self.seen, of=resource))
            kopf.on.event(*place, id=name, registry=registry)(partial(self.passed, of=resource))

    async def seen(self, *, body: kopf.Body, of: Resource, **_: object) -> None:
        """A version of an object."""
        try:
            changed = self._store.put(of.kind, cast(JsonValue, dict(body)))
        except UnreadableError as error:
            logger.error("%s %s: %s", of.kind, body.metadata.name, error)
            return
        for key in changed:
            self._changed(key)

    async def passed(self, *, event: kopf.RawEvent, of: Resource, **_: object) -> None:
        """The same again, and the end of an object."""
        self._filled()
        if event["type"] == "DELETED":
            for key in self._store.drop(of.kind, cast(JsonValue, event["object"])):
                self._changed(key)
