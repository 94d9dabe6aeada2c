"""The official Kubernetes client against one aiohttp session, for the operator's requests.

    AUTOCOMPRESS_CLUSTER_BIN=... python benchmarks/operator_client.py [--requests 2000]

Each in a process of its own, with eight requests at a time: the official client in a pool of eight
threads, the operator's own client in one event loop beside kopf. Prints requests per second,
seconds of processor per thousand requests, import time, resident memory, and their ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "cluster"))

AT_A_TIME = 8
NAMESPACE = "/api/v1/namespaces/default"


def official(kubeconfig: str, count: int) -> dict[str, float]:
    """The official client, in threads."""
    begin = time.perf_counter()
    from kubernetes import client, config

    imported = time.perf_counter() - begin
    api = client.CoreV1Api(config.new_client_from_config(kubeconfig))

    def one(_: int) -> None:
        api.read_namespace("default")

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        list(pool.map(one, range(AT_A_TIME)))
        return _timed(lambda: list(pool.map(one, range(count))), count, imported)


def own(kubeconfig: str, count: int) -> dict[str, float]:
    """The operator's client, over the session that kopf uses too."""
    os.environ["KUBECONFIG"] = kubeconfig
    begin = time.perf_counter()
    import aiohttp  # noqa: F401

    imported = time.perf_counter() - begin
    import kopf

    from autocompress_operator.client import ApiClient, Connection
    from autocompress_operator.credentials import log_in
    from autocompress_operator.watching import WatchActivity

    async def run() -> dict[str, float]:
        login = log_in(kopf.OperatorSettings(), WatchActivity(time.time))

        async def again() -> None:
            return None

        api = ApiClient(
            Connection(server=login.server, session=login.session),
            login=again,
            answered=lambda method, code: None,
        )
        left = iter(range(count))

        async def worker() -> None:
            for _ in left:
                await api.get(NAMESPACE)

        await api.get(NAMESPACE)
        begin, busy = time.perf_counter(), _busy_seconds()
        await asyncio.gather(*(worker() for _ in range(AT_A_TIME)))
        found = _figures(begin, busy, count, imported)
        await login.session.close()
        return found

    return asyncio.run(run())


def _timed(work, count: int, imported: float) -> dict[str, float]:  # noqa: ANN001
    begin, busy = time.perf_counter(), _busy_seconds()
    work()
    return _figures(begin, busy, count, imported)


def _figures(begin: float, busy: float, count: int, imported: float) -> dict[str, float]:
    wall = time.perf_counter() - begin
    return {
        "requests per second": count / wall,
        "processor seconds per 1000": (_busy_seconds() - busy) / count * 1000,
        "import seconds": imported,
        "resident MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _busy_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Measure both, or one of them in this process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--one", nargs=2, metavar=("CLIENT", "KUBECONFIG"))
    arguments = parser.parse_args()
    if arguments.one:
        measure = {"official": official, "own": own}[arguments.one[0]]
        print(json.dumps(measure(arguments.one[1], arguments.requests)))
        return
    from clusters import Clusters

    with tempfile.TemporaryDirectory() as folder:
        clusters = Clusters(root=Path(folder))
        try:
            kubeconfig = str(clusters.at("api").kubeconfig)
            found = {
                name: json.loads(
                    subprocess.run(
                        [
                            *(sys.executable, __file__, "--one", name, kubeconfig),
                            *("--requests", str(arguments.requests)),
                        ],
                        check=True,
                        capture_output=True,
                        text=True,
                    ).stdout
                )
                for name in ("official", "own")
            }
        finally:
            clusters.close()
    for figure, value in found["own"].items():
        other = found["official"][figure]
        print(f"{figure:28} own {value:8.2f}   official {other:8.2f}   ratio {value / other:.2f}")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
