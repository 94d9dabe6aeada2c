"""What the operator costs: delays, requests, memory, and how soon it is right after a restart.

    AUTOCOMPRESS_CLUSTER_BIN=... python benchmarks/operator_figures.py [--jobs 500]

Runs against a cluster whose pods are played (each stage lasts half a second), started for it from
the programs that the cluster tests use. Prints one figure a line, and all as JSON at the end.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import urllib3
import yaml
from kubernetes import client, config, watch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "cluster"))
import itertools

from api_proxy import ApiProxy, Traffic
from clusters import Cluster, Clusters, add_node, install_crd, make_namespace
from operators import Jobs, OperatorProcess, job

NODES = Path(__file__).parents[1] / "tests" / "cluster" / "gpu-nodes.yaml"
STAGES_OF_A_JOB = 5
SETTLED_SECONDS = 15
PATIENCE_SECONDS = 1800


class StageTimes:
    """When Jobs were seen to be made and to be complete, by one watch."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.made: dict[tuple[str, str], float] = {}
        self.complete: dict[tuple[str, str], float] = {}
        self._api = client.BatchV1Api(config.new_client_from_config(str(cluster.kubeconfig)))
        self._namespace = namespace
        self._over = threading.Event()
        threading.Thread(target=self._follow, daemon=True).start()

    def close(self) -> None:
        """The watch may end now; it does so with the API server."""
        self._over.set()

    def _follow(self) -> None:
        while not self._over.is_set():
            # A watch ends after a while, or breaks off with the server.
            with contextlib.suppress(urllib3.exceptions.HTTPError):
                for event in watch.Watch().stream(self._api.list_namespaced_job, self._namespace):
                    self._seen(event["object"])

    def _seen(self, found: client.V1Job) -> None:
        now, labels = time.monotonic(), found.metadata.labels
        key = labels["autocompress.dev/job"], labels["autocompress.dev/stage"]
        self.made.setdefault(key, now)
        conditions = found.status.conditions or []
        if any(c.type == "Complete" and c.status == "True" for c in conditions):
            self.complete.setdefault(key, now)

    def delays_seconds(self) -> list[float]:
        """From each stage's end to the next one's Job."""
        order = ("preflight", "profile", "search", "recover", "validate")
        names = {name for name, _ in self.made}
        return [
            self.made[name, after] - self.complete[name, before]
            for name in names
            for before, after in itertools.pairwise(order)
        ]


@contextmanager
def operator(proxy: ApiProxy, folder: Path, port: int) -> Iterator[OperatorProcess]:
    """The operator, seeing the cluster through the proxy."""
    process = OperatorProcess(proxy, folder, AUTOCOMPRESS_METRICS_PORT=str(port))
    try:
        yield process
    finally:
        process.kill()


def resident_mebibytes(process: OperatorProcess) -> float:
    """What is resident now."""
    text = Path(f"/proc/{process.pid}/status").read_text()
    line = next(line for line in text.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


def sample(process: OperatorProcess, name: str) -> float:
    """The sum of a metric's series; 0 before the operator serves any."""
    try:
        text = process.scrape()
    except OSError:
        return 0.0
    lines = [line for line in text.splitlines() if line.split("{")[0].split(" ")[0] == name]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


def wait_for_all(jobs: Jobs, count: int) -> None:
    """Until that many jobs have succeeded."""
    end = time.monotonic() + PATIENCE_SECONDS
    path = f"/apis/autocompress.dev/v1alpha1/namespaces/{jobs.namespace}/compressionjobs"
    while True:
        conditions = [
            {c["type"]: c["status"] for c in item.get("status", {}).get("conditions", [])}
            for item in jobs.api.get(path)["items"]
        ]
        if sum(found.get("Ready") == "True" for found in conditions) >= count:
            return
        if time.monotonic() > end:
            raise TimeoutError(f"not all of {count} jobs succeeded in {PATIENCE_SECONDS} s")
        time.sleep(1)


def visited(process: OperatorProcess, count: int) -> bool:
    """Every job was looked at and none waits."""
    done = sample(process, "compression_operator_reconcile_total")
    return done >= count and sample(process, "compression_operator_queue_depth") == 0


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--metrics-port", type=int, default=18_099)
    arguments = parser.parse_args()
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        clusters = Clusters(root=folder)
        try:
            cluster = clusters.at("kwok")
            install_crd(cluster.api)
            for node in yaml.safe_load(NODES.read_text(encoding="utf-8"))["items"]:
                add_node(cluster.api, node)
            measure(cluster, folder, arguments.jobs, arguments.metrics_port, figures)
        finally:
            clusters.close()
    for name, value in figures.items():
        print(f"{name:45} {value:12.3f}")
    print(json.dumps(figures))


def measure(
    cluster: Cluster, folder: Path, count: int, port: int, figures: dict[str, float]
) -> None:
    """Fill in the figures."""
    jobs = Jobs(cluster.api, make_namespace(cluster.api))
    times = StageTimes(cluster, jobs.namespace)
    proxy = ApiProxy(cluster, folder)
    with operator(proxy, folder, port) as process:
        time.sleep(SETTLED_SECONDS)
        figures["memory idle (MiB)"] = resident_mebibytes(process)
        proxy.traffic = Traffic()
        jobs.create(job("one"))
        wait_for_all(jobs, 1)
        time.sleep(2)
        one = proxy.traffic
        figures["requests of one job"] = sum(one.requests.values())
        for method, number in sorted(one.requests.items()):
            figures[f"requests of one job, {method}"] = number
        figures["bytes sent for one job"] = one.sent_bytes
        figures["bytes received for one job, watches included"] = one.received_bytes
        begin = time.monotonic()
        for number in range(1, count):
            jobs.create(job(f"job-{number}"))
        wait_for_all(jobs, count)
        figures[f"{count} jobs at once, all done (s)"] = time.monotonic() - begin
        delays = times.delays_seconds()
        alone = [times.made["one", "profile"] - times.complete["one", "preflight"]]
        figures["stage end to next Job, one job alone (s)"] = alone[0]
        figures["stage end to next Job, median (s)"] = statistics.median(delays)
        figures["stage end to next Job, p99 (s)"] = statistics.quantiles(delays, n=100)[98]
        made = [key for key in times.made if key[0].startswith(("job-", "one"))]
        figures["Jobs made per CompressionJob"] = len(made) / count
        figures[f"memory with {count} jobs (MiB)"] = resident_mebibytes(process)
    begin = time.monotonic()
    with operator(proxy, folder, port) as process:
        while not visited(process, count):
            time.sleep(0.1)
        figures[f"restart with {count} jobs, all visited (s)"] = time.monotonic() - begin
        figures[f"memory after the restart with {count} jobs (MiB)"] = resident_mebibytes(process)
    assert len(times.made) == count * STAGES_OF_A_JOB, "a restart made Jobs"
    times.close()
    proxy.close()


if __name__ == "__main__":
    main()
