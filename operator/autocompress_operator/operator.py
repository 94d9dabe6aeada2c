"""The parts of the operator put together, and run as long as all of them run."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime

import aiohttp
import kopf
from prometheus_client import CollectorRegistry, disable_created_metrics, start_http_server

from autocompress_operator.apply import ApiCluster
from autocompress_operator.cache import Cache
from autocompress_operator.client import ApiClient, ApiError, Connection
from autocompress_operator.credentials import log_in
from autocompress_operator.filling import Filling
from autocompress_operator.handlers import Handlers
from autocompress_operator.kopf_settings import kopf_settings
from autocompress_operator.metrics import JobCollector, OperatorCollector, OperatorMetrics
from autocompress_operator.progress import ProgressReader
from autocompress_operator.queue import Queue
from autocompress_operator.resources import watched
from autocompress_operator.resync import Resync
from autocompress_operator.settings import Settings, Switch
from autocompress_operator.store import Store
from autocompress_operator.visiting import Visitor
from autocompress_operator.watching import WatchActivity

logger = logging.getLogger(__name__)

#: A job that is due and not visited for this long: the visitors hang.
_STUCK_SECONDS = 600.0
#: How often to see whether what is waited for at the start is still there.
_FILLING_SECONDS = 10.0


def _now() -> datetime:
    return datetime.now(UTC)


async def run_operator(settings: Settings, *, ready: asyncio.Event | None = None) -> None:
    """Run until a signal comes or a part fails, which ends the process.

    ``ready`` is set once everything that is there has been seen.

    Raises:
        kopf.LoginError: there are no credentials.
    """
    await _Operator(settings, ready or asyncio.Event()).run()


class _Operator:
    def __init__(self, settings: Settings, ready: asyncio.Event) -> None:
        self._settings = settings
        self._ready = ready
        self._resources = watched(settings)
        self._kopf_settings = kopf_settings(settings, self._resources)
        self._activity = WatchActivity(time.time)
        self._queue = Queue(time.monotonic)
        self._filling = Filling(self._filled)
        self._cache = Cache(nodes={} if settings.nodes is Switch.ENABLED else None)
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        self._metrics = OperatorMetrics(self._registry)
        login = log_in(self._kopf_settings, self._activity)
        self._default_namespace = login.default_namespace
        self._connection = Connection(server=login.server, session=login.session)
        self._client = ApiClient(
            self._connection, login=self._log_in, answered=self._metrics.answered
        )
        self._resync = Resync(
            client=self._client,
            cache=self._cache,
            watched=self._resources,
            namespaces=settings.watch_namespaces,
            changed=self._queue.add,
        )

    async def run(self) -> None:
        """See ``run_operator``."""
        await self._resync.discover()
        self._serve_metrics()
        self._filling.expect(await self._resync.everything())
        parts: list[Coroutine[None, None, None]] = [
            self._activity.follow(),
            self._resync_for_ever(),
            ProgressReader(self._cache, self._queue.add).follow(self._settings.progress_seconds),
            *(self._visitor().work() for _ in range(self._settings.workers)),
        ]
        watching = asyncio.create_task(self._watch())
        others = [asyncio.create_task(part) for part in parts]
        try:
            done, _ = await asyncio.wait([watching, *others], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (watching, *others):
                task.cancel()
            await asyncio.gather(watching, *others, return_exceptions=True)
            await self._connection.session.close()

    def _visitor(self) -> Visitor:
        return Visitor(
            cluster=ApiCluster(
                client=self._client,
                cache=self._cache,
                clock=_now,
                instance=socket.gethostname(),
                wrote=self._metrics.wrote,
            ),
            queue=self._queue,
            settings=self._settings,
            metrics=self._metrics,
            clock=_now,
        )

    async def _watch(self) -> None:
        """Run kopf; it returns when the process is told to stop."""
        registry = kopf.OperatorRegistry()
        handlers = Handlers(Store(self._cache), changed=self._queue.add, saw=self._filling.saw)
        handlers.register(registry, self._resources)

        @kopf.on.login(registry=registry)
        async def session(**_: object) -> kopf.AiohttpSession:
            if self._connection.session.closed:
                await self._log_in()
            return kopf.AiohttpSession(
                aiohttp_session=self._connection.session,
                server=self._connection.server,
                default_namespace=self._default_namespace,
            )

        @kopf.on.probe(registry=registry, id="stale", retries=1)
        async def stale(**_: object) -> dict[str, float]:
            return self._alive()

        namespaces = self._settings.watch_namespaces
        await kopf.operator(
            registry=registry,
            settings=self._kopf_settings,
            clusterwide=not namespaces,
            namespaces=namespaces,
            standalone=True,
            # Else kopf asks for the name of the user, which a container may not have.
            identity=socket.gethostname(),  # type: ignore[arg-type]  # its type is private
            liveness_endpoint=f"http://0.0.0.0:{self._settings.liveness_port}/healthz",
        )

    def _alive(self) -> dict[str, float]:
        """What the liveness probe shows.

        Raises:
            RuntimeError: watches are silent, or visitors hang: a restart may help.
        """
        quiet, waits = self._activity.oldest_seconds(), self._queue.oldest_seconds
        if quiet > self._settings.stale_seconds:
            raise RuntimeError(f"a watch has been silent for {quiet:.0f} s")
        if self._ready.is_set() and waits > _STUCK_SECONDS:
            raise RuntimeError(f"a job has waited {waits:.0f} s for a visit")
        return {"quietSeconds": round(quiet), "oldestWaitSeconds": round(waits)}

    def _filled(self) -> None:
        logger.info("%d jobs seen", len(self._cache.jobs))
        self._queue.open()
        self._ready.set()

    async def _log_in(self) -> None:
        old = self._connection.session
        login = log_in(self._kopf_settings, self._activity)
        self._connection.session, self._connection.server = login.session, login.server
        await old.close()

    async def _resync_for_ever(self) -> None:
        while not self._ready.is_set():
            await asyncio.sleep(_FILLING_SECONDS)
            await _undisturbed(self._expect_less)
        while True:
            await asyncio.sleep(self._settings.resync_seconds)
            await _undisturbed(self._resync.run)

    async def _expect_less(self) -> None:
        """What went away between the first list and its watch is not waited for."""
        self._filling.expect(await self._resync.everything())

    def _serve_metrics(self) -> None:
        self._registry.register(
            OperatorCollector(depth=lambda: self._queue.depth, last_seen=self._activity.last_seen)
        )
        if self._settings.metrics_per_job is Switch.ENABLED:
            self._registry.register(
                JobCollector(self._cache, max_jobs=self._settings.metrics_max_jobs)
            )
        start_http_server(self._settings.metrics_port, registry=self._registry)


async def _undisturbed(work: Callable[[], Awaitable[None]]) -> None:
    """Do it; where the API server does not answer, the next time will do."""
    try:
        await work()
    except (ApiError, aiohttp.ClientError, TimeoutError) as error:
        logger.warning("resync: %s", error or type(error).__name__)
