"""How far running stages are: asked of their pods at a fixed pace."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator

import aiohttp
from pydantic import ValidationError

from autocompress.api.names import PROGRESS_PORT
from autocompress.api.v1alpha1.status import Progress
from autocompress_operator.cache import Cache
from autocompress_operator.snapshot import Key, Phase, Pod
from autocompress_operator.work import STAGES

_TIMEOUT = aiohttp.ClientTimeout(total=3, sock_connect=1)
_AT_ONCE = 16
_MOST_BYTES = 4096


class ProgressReader:
    """Reads ``/progress`` of stage pods into the cache."""

    def __init__(
        self,
        cache: Cache,
        changed: Callable[[Key], None],
        *,
        port: int = PROGRESS_PORT,
    ) -> None:
        """``changed`` is told of a job whose percentage has moved."""
        self._cache = cache
        self._changed = changed
        self._port = port

    async def follow(self, pace_seconds: float) -> None:
        """Ask for ever."""
        async with aiohttp.ClientSession(timeout=_TIMEOUT) as session:
            while True:
                await self.ask(session)
                await asyncio.sleep(pace_seconds)

    async def ask(self, session: aiohttp.ClientSession) -> None:
        """Ask every running stage once; one that does not answer keeps what it said before."""
        places = asyncio.Semaphore(_AT_ONCE)
        await asyncio.gather(
            *(self._ask(session, places, key, pod) for key, pod in self._running())
        )

    def _running(self) -> Iterator[tuple[Key, Pod]]:
        for key, pod in self._cache.pods:
            runs = pod.phase is Phase.RUNNING and pod.running_since is not None
            if runs and pod.ip and pod.index == 0 and pod.work in STAGES:
                yield key, pod

    async def _ask(
        self,
        session: aiohttp.ClientSession,
        places: asyncio.Semaphore,
        key: Key,
        pod: Pod,
    ) -> None:
        host = f"[{pod.ip}]" if pod.ip and ":" in pod.ip else pod.ip
        async with places:
            try:
                async with session.get(f"http://{host}:{self._port}/progress") as response:
                    text = await response.content.read(_MOST_BYTES)
            except (aiohttp.ClientError, TimeoutError, OSError):
                return
        progress = read_progress(text)
        before = self._cache.progress.get(pod.uid)
        # The time left moves with every answer: it is told along with the percentage.
        if progress is not None and (before is None or before.percent != progress.percent):
            self._cache.progress[pod.uid] = progress
            self._changed(key)


def read_progress(text: bytes) -> Progress | None:
    """The answer of a stage; None where it is not one."""
    try:
        value = json.loads(text)
        return Progress.model_validate(value) if isinstance(value, dict) else None
    except (ValueError, ValidationError):
        return None
