"""Requests to the API server, as JSON values over one aiohttp session."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

import aiohttp
from pydantic import JsonValue

from autocompress_operator.snapshot import JsonObject

_TIMEOUT = aiohttp.ClientTimeout(total=30, sock_connect=10)
_TOO_MANY = 429
_UNAUTHORIZED = 401
_TRIES = 5
_LONGEST_WAIT_SECONDS = 30.0


class Content(StrEnum):
    """How a body is meant."""

    JSON = "application/json"
    MERGE = "application/merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class ApiError(Exception):
    """An answer with a code of 400 or above."""

    def __init__(self, code: int, message: str, causes: tuple[str, ...]) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        #: Reasons of the causes, for example NamespaceTerminating.
        self.causes = causes


@dataclass(kw_only=True)
class Connection:
    """The session that is valid now; a login puts another in its place."""

    server: str
    session: aiohttp.ClientSession


class ApiClient:
    """Requests that wait when the API server asks for it."""

    def __init__(
        self,
        connection: Connection,
        *,
        login: Callable[[], Awaitable[None]],
        answered: Callable[[str, int], None],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """``answered`` is told method and code of every answer."""
        self._connection = connection
        self._login = login
        self._answered = answered
        self._sleep = sleep

    async def get(self, path: str, **query: str) -> JsonObject:
        """An object or a list."""
        return await self.request("GET", path, query=query)

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: JsonValue = None,
        content: Content = Content.JSON,
        accept: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> JsonObject:
        """The answer to a request.

        Raises:
            ApiError: an answer with a code of 400 or above.
            aiohttp.ClientError: no answer.
        """
        data = None if body is None else json.dumps(body).encode()
        headers = {"Accept": accept, "Content-Type": content.value}
        logged_in = False
        for tries_left in reversed(range(_TRIES)):
            connection = self._connection
            async with connection.session.request(
                method,
                connection.server + path,
                data=data,
                headers=headers,
                params=dict(query or {}),
                timeout=_TIMEOUT,
            ) as response:
                text = await response.read()
                self._answered(method, response.status)
                if response.status == _TOO_MANY and tries_left:
                    await self._sleep(_wait_seconds(response.headers.get("Retry-After")))
                    continue
                if response.status == _UNAUTHORIZED and not logged_in:
                    # Tokens are replaced while we run.
                    await self._login()
                    logged_in = True
                    continue
                return _answer(response.status, text)
        raise ApiError(_TOO_MANY, "the API server is overloaded", ())


def _wait_seconds(retry_after: str | None) -> float:
    seconds = float(retry_after) if retry_after and retry_after.isdigit() else 1.0
    return min(seconds, _LONGEST_WAIT_SECONDS)


def _answer(code: int, text: bytes) -> JsonObject:
    try:
        value = json.loads(text) if text else {}
    except ValueError:
        value = {}
    found: JsonObject = value if isinstance(value, dict) else {}
    if code < 400:
        return found
    message = found.get("message")
    details = found.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    raise ApiError(
        code,
        message if isinstance(message, str) else text.decode(errors="replace")[:500],
        tuple(
            str(cause.get("reason", ""))
            for cause in (causes if isinstance(causes, list) else [])
            if isinstance(cause, dict)
        ),
    )
