"""How the operator logs in: one aiohttp session, for kopf's watches and for our own requests."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import kopf

from autocompress_operator.watching import WatchActivity

_TOKEN_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
#: A kubelet replaces the token well before it expires.
_TOKEN_SECONDS = 60.0


class FreshToken:
    """The service account's token as a header; read again now and then, since it is replaced."""

    def __init__(self, file: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._file = file
        self._clock = clock
        self._read_at: float | None = None
        self._header = ""

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Send a request with the token of now."""
        now = self._clock()
        if self._read_at is None or now - self._read_at > _TOKEN_SECONDS:
            self._header = f"Bearer {self._file.read_text(encoding='ascii').strip()}"
            self._read_at = now
        request.headers["Authorization"] = self._header
        return await handler(request)


@dataclass(frozen=True, kw_only=True)
class Login:
    """A session and where it goes."""

    session: aiohttp.ClientSession
    server: str
    default_namespace: str | None


def log_in(settings: kopf.OperatorSettings, activity: WatchActivity) -> Login:
    """A new session, as service account in a pod, else by kubeconfig.

    Raises:
        kopf.LoginError: neither is there.
    """
    logger = logging.getLogger(__name__)
    info = kopf.login_with_service_account(settings=settings, logger=logger)
    middlewares: tuple[aiohttp.ClientMiddlewareType, ...] = (activity.watch,)
    if info is not None:
        middlewares += (FreshToken(_TOKEN_FILE),)
    else:
        info = kopf.login_with_kubeconfig(settings=settings, logger=logger)
    if info is None:
        raise kopf.LoginError("Neither a service account nor a kubeconfig: set KUBECONFIG.")
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=info.as_ssl_context()),
        headers={"User-Agent": "autocompress-operator", **info.as_http_headers()},
        middlewares=middlewares,
    )
    return Login(
        session=session,
        server=info.server.rstrip("/"),
        default_namespace=info.default_namespace,
    )
