"""What an API server may answer besides the expected, played by a small HTTP server.

What a real one answers is in tests/cluster.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from autocompress.cluster import jobs, logs
from autocompress.cluster.client import Cluster, NotFoundError, open_cluster
from autocompress.contract.errors import (
    AccessError,
    DataError,
    SpecError,
    TryLaterError,
    UnavailableError,
)


class Server(ThreadingHTTPServer):
    """Gives the answers it was told, in order, and keeps the requests."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: list[tuple[int, object]] = []
        self.requests: list[tuple[str, dict[str, str]]] = []

    def tell(self, *answers: object, code: int = 200) -> None:
        self.answers += [(code, answer) for answer in answers]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {
            key: values[0] for key, values in parse_qs(parts.query, keep_blank_values=True).items()
        }
        self.server.requests.append((parts.path, query))
        code, answer = self.server.answers.pop(0)
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        del arguments


@pytest.fixture
def server():
    with Server() as running:
        threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True).start()
        yield running
        running.shutdown()


def kubeconfig(folder: Path, address: str, **context: str) -> Path:
    path = folder / "config"
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "here",
                "contexts": [
                    {"name": "here", "context": {"cluster": "c", "user": "u", **context}},
                    {"name": "there", "context": {"cluster": "c", "user": "u", "namespace": "t"}},
                ],
                "clusters": [{"name": "c", "cluster": {"server": address}}],
                "users": [{"name": "u", "user": {"token": "secret-token"}}],
            }
        )
    )
    return path


@pytest.fixture
def cluster(server, tmp_path, monkeypatch) -> Cluster:
    path = kubeconfig(tmp_path, f"http://127.0.0.1:{server.server_port}", namespace="team")
    load = pytest.importorskip("kubernetes.config.kube_config")
    monkeypatch.setenv("KUBECONFIG", str(path))
    monkeypatch.setattr(load, "KUBE_CONFIG_DEFAULT_LOCATION", str(path))
    return open_cluster(None)


def test_the_namespace_is_that_of_the_context(cluster) -> None:
    assert cluster.namespace == "team"
    assert open_cluster("there").namespace == "t"
    with pytest.raises(SpecError, match="get-contexts"):
        open_cluster("nowhere")


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        ((401, {"message": "Unauthorized"}), AccessError, "refuses: Unauthorized; log in again"),
        ((403, {"message": "user u cannot list"}), AccessError, "user u cannot list"),
        ((404, b"404 page not found"), NotFoundError, "install the chart"),
        ((429, {"message": "storage is (re)initializing"}), UnavailableError, "try again"),
        ((500, b"<html>"), UnavailableError, "answers 500"),
    ],
)
def test_what_goes_wrong_is_said_with_what_to_do(server, cluster, answer, error, says):
    server.answers.append(answer)
    with pytest.raises(error) as caught:
        jobs.read(cluster, "team", "a")
    assert says in str(caught.value)
    assert "secret-token" not in str(caught.value)


def test_a_missing_job_and_a_missing_kind_are_told_apart(server, cluster) -> None:
    server.tell({"message": 'compressionjobs.autocompress.dev "a" not found'}, code=404)
    with pytest.raises(NotFoundError, match="there is no compressionjob a in namespace team"):
        jobs.read(cluster, "team", "a")
    assert server.requests[-1][0].endswith("/v1alpha1/namespaces/team/compressionjobs/a")


def event(kind: str, name: str, version: str) -> bytes:
    found = {
        "type": kind,
        "object": {
            "kind": "CompressionJob",
            "metadata": {"name": name, "resourceVersion": version},
        },
    }
    return json.dumps(found).encode() + b"\n"


def names(cluster: Cluster, count: int) -> list[tuple[str, str]]:
    found = jobs.events(cluster, "team", "7")
    taken = [next(found) for _ in range(count)]
    found.close()
    return [(each.type, each.object["metadata"]["name"]) for each in taken]


def test_a_watch_that_ends_is_taken_up_where_it_was(server, cluster) -> None:
    server.tell(
        event("ADDED", "a", "8") + event("BOOKMARK", "", "12"),
        event("MODIFIED", "a", "13"),
    )
    assert names(cluster, 2) == [("ADDED", "a"), ("MODIFIED", "a")]
    assert [query["resourceVersion"] for _, query in server.requests] == ["7", "12"]
    assert all(query["allowWatchBookmarks"] == "true" for _, query in server.requests)


def test_a_watch_whose_version_is_gone_begins_anew(server, cluster) -> None:
    gone = {"type": "ERROR", "object": {"code": 410, "message": "too old resource version"}}
    server.tell(json.dumps(gone).encode() + b"\n", event("ADDED", "a", "20"))
    assert names(cluster, 1) == [("ADDED", "a")]
    assert [query["resourceVersion"] for _, query in server.requests] == ["7", ""]


def test_another_error_in_a_watch_ends_it(server, cluster) -> None:
    bad = {"type": "ERROR", "object": {"code": 500, "message": "etcd is away"}}
    server.tell(json.dumps(bad).encode() + b"\n")
    with pytest.raises(UnavailableError, match="etcd is away"):
        names(cluster, 1)


def table(kind: str, *cells: object, columns: bool) -> bytes:
    rows = [{"cells": list(cells), "object": {"metadata": {"resourceVersion": "9"}}}]
    definitions = [{"name": "Name", "priority": 0}, {"name": "Target", "priority": 1}]
    found: dict[str, object] = {"kind": "Table", "rows": rows, "metadata": {}}
    if columns:
        found["columnDefinitions"] = definitions
    return json.dumps({"type": kind, "object": found}).encode() + b"\n"


@pytest.mark.parametrize(
    ("width", "cells"), [(jobs.Width.NARROW, ("a",)), (jobs.Width.WIDE, ("a", ""))]
)
def test_only_the_first_table_of_a_watch_names_its_columns(server, cluster, width, cells) -> None:
    server.tell(
        table("ADDED", "a", None, columns=True) + table("DELETED", "a", None, columns=False)
    )
    found = jobs.changes(cluster, "team", width, "7")
    rows = [next(found), next(found)]
    assert [row.cells for row in rows] == [cells, cells]
    assert [row.gone for row in rows] == [False, True]


def pod(name: str, created: str, *, waiting: str | None = None, started: bool = True) -> object:
    state = {"waiting": {"reason": waiting}} if waiting else {"running": {}}
    status: dict[str, object] = {}
    if started or waiting:
        status["containerStatuses"] = [{"name": "stage", "state": state}]
    else:
        status["conditions"] = [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3"}
        ]
    labels = {"autocompress.dev/stage": "search"}
    return {
        "metadata": {"name": name, "creationTimestamp": created, "labels": labels},
        "status": status,
    }


def test_the_newest_pod_is_read(server, cluster) -> None:
    old, new = pod("old", "2026-12-01T05:00:00Z"), pod("new", "2026-12-01T06:00:00Z")
    server.tell({"items": [new, old]}, b"one\ntwo")
    found = logs.newest_pod(cluster, "team", "a", logs.Step.SEARCH)
    assert (found.name, found.stage) == ("new", "search")
    assert list(logs.log_lines(cluster, found)) == [b"one", b"two"]
    selector = server.requests[0][1]["labelSelector"]
    assert selector == "autocompress.dev/job=a,autocompress.dev/stage=search"
    assert server.requests[1] == (
        "/api/v1/namespaces/team/pods/new/log",
        {"container": "stage"},
    )


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (pod("p", "2026-12-01T05:00:00Z", waiting="ImagePullBackOff"), "ImagePullBackOff"),
        (pod("p", "2026-12-01T05:00:00Z", started=False), "Unschedulable: 0/3"),
    ],
)
def test_a_pod_that_has_not_started_says_why(server, cluster, found, says) -> None:
    server.tell({"items": [found]})
    waiting = logs.newest_pod(cluster, "team", "a", None)
    with pytest.raises(TryLaterError, match=says):
        list(logs.log_lines(cluster, waiting))


def test_following_waits_for_the_pod_or_the_one_after_it(server, cluster, monkeypatch) -> None:
    monkeypatch.setattr(logs, "_POLL_SECONDS", 0.0)
    waiting = pod("first", "2026-12-01T05:00:00Z", waiting="ContainerCreating")
    running = pod("second", "2026-12-01T06:00:00Z")
    server.tell({"items": [waiting]}, {"items": [waiting]}, {"items": [waiting, running]}, b"log\n")
    found = logs.newest_pod(cluster, "team", "a", None)
    assert list(logs.follow(cluster, found, "a", None)) == [b"log"]
    assert server.requests[-1] == (
        "/api/v1/namespaces/team/pods/second/log",
        {"container": "stage", "follow": "true"},
    )


def test_no_pod_is_told(server, cluster) -> None:
    server.tell({"items": []})
    with pytest.raises(DataError, match="no pod of a is in namespace team"):
        logs.newest_pod(cluster, "team", "a", None)
