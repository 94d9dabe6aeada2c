"""Progress over HTTP: ``/progress`` as JSON for the operator, ``/metrics`` for Prometheus."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from types import TracebackType

from prometheus_client import CollectorRegistry, Gauge, ProcessCollector
from prometheus_client.exposition import choose_encoder

from autocompress.contract.errors import SpecError
from autocompress.contract.progress import Figure, Progress
from autocompress.contract.stage import Stage
from autocompress.stages.outline import Course

#: How trainings write their loss into the note of a step.
_LOSS = re.compile(r"loss ([0-9]+\.[0-9]+)")
_FIGURES = {
    Figure.TRAINING_LOSS: (
        "compression_training_loss",
        "Training loss of the last step, in nats per token.",
    ),
    Figure.LEARNING_RATE: (
        "compression_training_learning_rate",
        "Learning rate of the last step.",
    ),
    Figure.TRAINED_TOKENS: (
        "compression_training_tokens",
        "Tokens that the model has been trained on so far.",
    ),
}


class ProgressPort:
    """A sink for the progress of one stage, served while it is entered."""

    def __init__(
        self, stage: Stage, port: int, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stage, self._asked_port = stage, port
        self._lock = threading.Lock()
        self._course = Course(stage, clock)
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        share = Gauge(
            "compression_stage_progress_ratio",
            "How far the stage is, from 0 to 1.",
            ["stage"],
            registry=self._registry,
        )
        share.labels(stage.value).set_function(lambda: self._read(self._course.share))
        self._task_share = Gauge(
            "compression_stage_task_progress_ratio",
            "How far the current task of the stage is, from 0 to 1.",
            ["stage", "task"],
            registry=self._registry,
        )
        remaining = Gauge(
            "compression_stage_remaining_seconds",
            "Estimated time to the end of the stage; NaN while unknown.",
            ["stage"],
            registry=self._registry,
        )
        remaining.labels(stage.value).set_function(self._remaining_or_nan)
        self._figures: dict[Figure, Gauge] = {}

    @property
    def port(self) -> int:
        """The port that is served."""
        return int(self._server.server_address[1])

    def __enter__(self) -> ProgressPort:
        """Begin to serve.

        Raises:
            SpecError: the port cannot be listened on.
        """
        try:
            self._server = _Server(self._asked_port, self)
        except (OSError, OverflowError) as error:
            raise SpecError(
                f"--progress-port {self._asked_port}: cannot be listened on "
                f"({getattr(error, 'strerror', None) or error}); give a free port, or 0 for any"
            ) from error
        threading.Thread(target=self._server.serve_forever, name="progress", daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def task(self, name: str, total: float) -> None:
        """See ``Progress``."""
        with self._lock:
            self._course.begin(name, total)
        self._task_share.clear()
        self._task_share.labels(self._stage.value, name).set_function(
            lambda: self._read(self._course.task_share)
        )

    def advance(self, amount: float = 1, note: str = "") -> None:
        """See ``Progress``."""
        with self._lock:
            self._course.advance(amount)
        if loss := _LOSS.fullmatch(note):
            self.measure(Figure.TRAINING_LOSS, float(loss[1]))

    def measure(self, figure: Figure, value: float) -> None:
        """See ``Progress``; a gauge appears with its first value."""
        if figure not in self._figures:
            name, text = _FIGURES[figure]
            self._figures[figure] = Gauge(name, text, ["stage"], registry=self._registry)
        self._figures[figure].labels(self._stage.value).set(value)

    def say(self, message: str) -> None:
        """What is said is for the log."""

    def progress_document(self) -> bytes:
        """The body of ``/progress``; the time left is null while nothing can be told."""
        with self._lock:
            remaining = self._course.remaining_seconds()
            return json.dumps(
                {
                    "stage": self._stage.value,
                    "task": self._course.task,
                    "percent": int(100 * self._course.share()),
                    "estimatedRemainingSeconds": None if remaining is None else round(remaining),
                }
            ).encode()

    def metrics_document(self, accept: str) -> tuple[bytes, str]:
        """The body of ``/metrics`` and its content type."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type

    def _read(self, value: Callable[[], float]) -> float:
        with self._lock:
            return value()

    def _remaining_or_nan(self) -> float:
        with self._lock:
            remaining = self._course.remaining_seconds()
        return float("nan") if remaining is None else remaining


class _Server(ThreadingMixIn, TCPServer):
    """On all addresses, IPv6 too where there is any: the operator comes by the pod's address.

    Not the standard library's HTTP server, which asks DNS for its own name first.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port: int, source: ProgressPort) -> None:
        self.source = source
        self.address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
        super().__init__(("", port), _Handler)

    def server_bind(self) -> None:
        """Listen on IPv4 as well."""
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    #: A client that says nothing must not hold a thread for ever.
    timeout = 10

    def do_GET(self) -> None:
        """Answer one of the two documents."""
        path = self.path.partition("?")[0]
        if path == "/progress":
            self._answer(self.server.source.progress_document(), "application/json")
        elif path == "/metrics":
            accept = self.headers.get("Accept", "")
            self._answer(*self.server.source.metrics_document(accept))
        else:
            self.send_error(HTTPStatus.NOT_FOUND, explain="/progress and /metrics are here")

    def log_message(self, format: str, *args: object) -> None:
        """Requests are no news."""

    def _answer(self, body: bytes, content_type: str) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _conforms(port: ProgressPort) -> Progress:
    return port
