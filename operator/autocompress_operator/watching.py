"""When each watch last heard from the API server; bookmarks count, which handlers never see."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import aiohttp

_LOOK_SECONDS = 5.0


@dataclass(slots=True)
class _Stream:
    response: aiohttp.ClientResponse
    seen_bytes: int


class WatchActivity:
    """Follows the response of every watch request, each by its path."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """``clock`` tells seconds since the epoch."""
        self._clock = clock
        self._streams: dict[str, _Stream] = {}
        self._heard: dict[str, float] = {}

    async def watch(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """An aiohttp middleware: remembers the responses of watches."""
        response = await handler(request)
        if request.url.query.get("watch") == "true" and response.status == 200:
            path = request.url.path
            self._streams[path] = _Stream(response, response.content.total_bytes)
            self._heard[path] = self._clock()
        return response

    async def follow(self) -> None:
        """Look for ever whether streams have received anything."""
        while True:
            self.look()
            await asyncio.sleep(_LOOK_SECONDS)

    def look(self) -> None:
        """Look once."""
        for path, stream in self._streams.items():
            received = stream.response.content.total_bytes
            if received > stream.seen_bytes:
                stream.seen_bytes = received
                self._heard[path] = self._clock()

    def last_seen(self) -> dict[str, float]:
        """When each kind was last heard of, by plural name; of several watches the quietest."""
        found: dict[str, float] = {}
        for path, seen in list(self._heard.items()):
            name = path.rpartition("/")[2]
            found[name] = min(seen, found.get(name, seen))
        return found

    def oldest_seconds(self) -> float:
        """How long the quietest watch has been quiet."""
        now = self._clock()
        return max((now - seen for seen in self._heard.values()), default=0.0)
