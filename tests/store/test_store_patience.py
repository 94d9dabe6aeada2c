"""A store in a bucket whose server is busy, breaks connections, or speaks TLS of its own."""

from __future__ import annotations

import http.server
import socket
import ssl
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from autocompress.contract.errors import SpecError, UnavailableError
from autocompress.store import s3
from autocompress.store.opening import open_store
from autocompress.store.s3 import Credentials, Location, S3Store
from autocompress.testing.s3_server import ACCESS_KEY, SECRET_KEY

pytestmark = pytest.mark.s3
BUSY = (
    b'<?xml version="1.0"?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.'
    b"</Message><Resource>/</Resource><RequestId>1</RequestId><HostId>1</HostId></Error>"
)


class FlakyProxy:
    """Passes requests on, except for those that ``faults`` has something for, in order."""

    def __init__(self, endpoint: str) -> None:
        self.faults: list[str] = []
        self._server = (urlsplit(endpoint).hostname, urlsplit(endpoint).port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):  # closed before
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        request = self._request(connection)
        fault = self.faults.pop(0) if request and self.faults else ""
        if fault == "busy":
            head = b"HTTP/1.1 503 Slow Down\r\nContent-Type: application/xml\r\nConnection: close"
            connection.sendall(b"%s\r\nContent-Length: %d\r\n\r\n%s" % (head, len(BUSY), BUSY))
        elif fault == "reset":
            self._reset(connection)
        elif request:
            answer = self._answer(request)
            connection.sendall(answer[: -1 - len(answer) // 4] if fault == "cut" else answer)
            if fault == "cut":
                self._reset(connection)
        connection.close()

    def _request(self, connection: socket.socket) -> bytes:
        data = b""
        while b"\r\n\r\n" not in data:
            piece = connection.recv(65536)
            if not piece:
                return b""
            data += piece
        head, _, body = data.partition(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in lines[1:])
        while len(body) < int(fields.get(b"content-length", b"0")):
            body += connection.recv(65536)
        return b"\r\n".join([*lines, b"Connection: close"]) + b"\r\n\r\n" + body

    def _answer(self, request: bytes) -> bytes:
        with socket.create_connection(self._server) as server:
            server.sendall(request)
            answer = b""
            while piece := server.recv(65536):
                answer += piece
            return answer

    @staticmethod
    def _reset(connection: socket.socket) -> None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.fixture
def proxy(shared_s3_server) -> Iterator[FlakyProxy]:
    made = FlakyProxy(shared_s3_server.endpoint)
    yield made
    made.close()


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def store(proxy, s3_uri, pauses) -> S3Store:
    bucket, _, prefix = s3_uri.removeprefix("s3://").partition("/")
    made = S3Store(
        Location(endpoint=proxy.endpoint, bucket=bucket, prefix=prefix, region="us-east-1"),
        Credentials(access_key=ACCESS_KEY, secret_key=SECRET_KEY),
        pause=pauses.append,
    )
    made.put("a", b"1" * 5000)
    return made


FAULTS = {
    "busy for long": ["busy"] * 6,
    "broken before": ["reset"] * 5,
    "broken amid the answer": ["cut"] * 5,
}


@pytest.mark.parametrize("faults", FAULTS.values(), ids=FAULTS)
def test_every_operation_outlasts_a_server_that_fails_for_a_while(
    store, proxy, pauses, tmp_path, faults
):
    (tmp_path / "up").write_bytes(b"2" * 5000)

    def download() -> bytes:
        store.download("a", tmp_path / "down")
        return (tmp_path / "down").read_bytes()

    for operation, expected in (
        (lambda: store.get("a"), b"1" * 5000),
        (lambda: store.size_bytes("a"), 5000),
        (download, b"1" * 5000),
        (lambda: store.put("b", b"3"), None),
        (lambda: store.upload(tmp_path / "up", "c"), None),
        (lambda: list(store.keys("")), ["a", "b", "c"]),
        (lambda: store.put_if_absent("d", b"4"), True),
        (lambda: store.delete("d"), None),
    ):
        proxy.faults = list(faults)
        assert operation() == expected
        assert proxy.faults == []
    assert pauses
    assert (store.get("b"), store.get("c")) == (b"3", b"2" * 5000)
    assert list(store.keys("")) == ["a", "b", "c"]


def test_a_conditional_write_whose_answer_was_lost_is_settled_by_what_is_there(store, proxy):
    proxy.faults = ["cut"]
    assert store.put_if_absent("mine", b"mine")
    assert store.get("mine") == b"mine"
    proxy.faults = ["cut"]
    assert not store.put_if_absent("mine", b"other")
    proxy.faults = ["reset"]
    assert store.put_if_absent("later", b"later")


def test_patience_ends(store, proxy, pauses):
    proxy.faults = ["busy"] * 1000
    with pytest.raises(UnavailableError, match="503") as caught:
        store.get("a")
    assert proxy.endpoint in str(caught.value)
    assert pauses == list(s3._WAITS)
    assert sum(pauses) <= 90


def test_a_server_that_has_answered_is_waited_for_when_it_goes(store, proxy, pauses):
    proxy.close()
    with pytest.raises(UnavailableError, match="Connection refused"):
        store.get("a")
    assert pauses == list(s3._WAITS)


@contextmanager
def https_server(folder: Path) -> Iterator[tuple[str, Path]]:
    """A server that holds nothing, and the certificate that it must be known by."""

    class Nothing(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = BUSY.replace(b"SlowDown", b"NoSuchKey")
            self.send_response(404)
            self.send_header("Content-Type", "application/xml")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    certificate, key = folder / "ca.pem", folder / "key.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    subprocess.run(
        [
            *command.split(),
            *("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Nothing)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"https://127.0.0.1:{server.server_address[1]}", certificate
    finally:
        server.shutdown()
        server.server_close()


def test_a_certificate_authority_is_named_by_the_environment(tmp_path):
    keys = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y", "AWS_SESSION_TOKEN": "z"}
    with https_server(tmp_path) as (endpoint, certificate):
        for name in ("AWS_CA_BUNDLE", "SSL_CERT_FILE"):
            environment = {**keys, name: str(certificate)}
            store = open_store("s3://bucket/x", endpoint=endpoint, environment=environment)
            with pytest.raises(KeyError):
                store.get("a")
        store = open_store("s3://bucket/x", endpoint=endpoint, environment=keys)
        with pytest.raises(UnavailableError, match="AWS_CA_BUNDLE"):
            store.get("a")


def test_a_file_of_certificates_that_is_not_there_is_told(tmp_path):
    keys = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y"}
    with pytest.raises(SpecError, match="AWS_CA_BUNDLE=/nowhere"):
        open_store("s3://bucket", environment={**keys, "AWS_CA_BUNDLE": "/nowhere"})
