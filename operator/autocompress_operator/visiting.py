"""Workers that visit jobs from the queue, one job at a time each."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import datetime

import aiohttp

from autocompress_operator.client import ApiError
from autocompress_operator.metrics import OperatorMetrics
from autocompress_operator.queue import Queue
from autocompress_operator.reading import UnreadableError
from autocompress_operator.reconcile import Cluster, StaleError, reconcile
from autocompress_operator.settings import Settings

logger = logging.getLogger(__name__)


class Visitor:
    """Takes keys from the queue for ever; what fails is tried again later."""

    def __init__(
        self,
        *,
        cluster: Cluster,
        queue: Queue,
        settings: Settings,
        metrics: OperatorMetrics,
        clock: Callable[[], datetime],
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._settings = settings
        self._metrics = metrics
        self._clock = clock

    async def work(self) -> None:
        """Visit one job after the other."""
        while True:
            await self.visit_next()

    async def visit_next(self) -> None:
        """Wait for a job that is due, and visit it."""
        key = await self._queue.take()
        started = time.perf_counter()
        try:
            again = await reconcile(self._cluster, key, self._clock, self._settings)
        except StaleError:
            # The watch brings the change, or has: the next look sees it.
            self._metrics.visits.labels(result="stale").inc()
            self._queue.failed(key)
        except (ApiError, aiohttp.ClientError, TimeoutError, UnreadableError) as error:
            delay = self._queue.failed(key)
            self._metrics.visits.labels(result="error").inc()
            logger.warning("%s: %s; again in %d s", key, error or type(error).__name__, delay)
        except asyncio.CancelledError:
            raise
        except Exception:
            # A fault of ours in one job must not stop the others.
            delay = self._queue.failed(key)
            self._metrics.visits.labels(result="error").inc()
            logger.exception("%s: a fault of the operator; again in %d s", key, delay)
        else:
            self._metrics.visits.labels(result="success").inc()
            self._queue.done(key, None if again is None else again.total_seconds())
        finally:
            self._metrics.visit_seconds.observe(time.perf_counter() - started)
