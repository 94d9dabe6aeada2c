"""Clusters for tests: started from programs, or the one that KUBECONFIG names."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import pytest
import yaml
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

PROGRAMS = "AUTOCOMPRESS_CLUSTER_BIN"
#: Kubernetes versions by the name that the programs give them.
VERSIONS = {"1.34": "kubernetes", "1.37": "kubernetes-1.37"}
MISSING = (
    f"set {PROGRAMS} to a folder with the program `cluster`, or KUBECONFIG to the configuration of "
    "a cluster that tests may use (kind, for example)"
)

CRD_FILE = Path(__file__).parents[2] / "crds" / "autocompress.dev_compressionjobs.yaml"
JOBS = "/apis/autocompress.dev/v1alpha1/namespaces/{namespace}/compressionjobs"
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"


class Refused(Exception):
    """An answer of the API server with a code of 400 or above; ``status`` is its body."""

    def __init__(self, code, status):
        super().__init__(f"{code}: {status.get('message', status)}")
        self.code = code
        self.status = status

    @property
    def causes(self):
        """Field and message of every fault."""
        causes = self.status.get("details", {}).get("causes", [])
        return [(cause.get("field", ""), cause.get("message", "")) for cause in causes]


@dataclass(frozen=True)
class Api:
    """Requests as JSON values through the official client."""

    connection: client.ApiClient

    def request(self, method, path, body=None, *, content="application/json", accept=None, **query):
        """The answer to a request; ``query`` in camelCase."""
        try:
            answer = self.connection.call_api(
                path,
                method,
                header_params={"Content-Type": content, "Accept": accept or "application/json"},
                query_params=list(query.items()),
                body=body,
                auth_settings=["BearerToken"],
                _preload_content=False,
                _return_http_data_only=True,
            )
        except ApiException as error:
            raise Refused(error.status, _json_or_text(error.body)) from None
        return json.loads(answer.data)

    def get(self, path, **query):
        return self.request("GET", path, **query)

    def create(self, path, body, **query):
        return self.request("POST", path, body, fieldValidation="Strict", **query)

    def replace(self, path, body, **query):
        return self.request("PUT", path, body, fieldValidation="Strict", **query)

    def merge(self, path, body, **query):
        return self.request("PATCH", path, body, content=MERGE, **query)

    def apply(self, path, body, *, manager="tests", **query):
        """Server-side apply, with force."""
        return self.request(
            "PATCH", path, body, content=APPLY, fieldManager=manager, force="true", **query
        )

    def delete(self, path, **query):
        return self.request("DELETE", path, **query)


def _json_or_text(body):
    try:
        return json.loads(body)
    except (TypeError, ValueError):
        return {"message": str(body)}


@dataclass(frozen=True)
class Cluster:
    """A cluster that is up; ``folder`` is None where KUBECONFIG names it."""

    kubeconfig: Path
    version: str
    folder: Path | None = None

    @property
    def api(self):
        """A connection with the rights of the kubeconfig's user."""
        return Api(config.new_client_from_config(str(self.kubeconfig)))

    def stop(self, program, *options):
        """Stop one of its programs; ``--kill`` without a chance to end well."""
        _run("stop", self._own_folder(), program, *options)

    def start(self, program):
        """Start it again."""
        _run("start", self._own_folder(), program)

    def load(self, archive):
        """Put the images of an archive on every node."""
        _run("load", self._own_folder(), archive)

    def image(self, program, *options):
        """Put a program on every node as the image localhost/PROGRAM:1."""
        _run("image", self._own_folder(), program, *options)

    def _own_folder(self):
        assert self.folder is not None, f"only for clusters started from programs: {MISSING}"
        return self.folder


@dataclass
class Clusters:
    """Starts clusters when they are first asked for, and stops all of them at the end."""

    root: Path
    up: dict[tuple[str, ...], Cluster] = field(default_factory=dict)

    def at(self, level, *options, version="1.34"):
        """The cluster of a level (api, control, kwok or node) with further options of ``up``.

        With KUBECONFIG alone, the cluster that it names, whatever the level.
        """
        key = (level, version, *map(str, options))
        if key not in self.up:
            self.up[key] = self._start(key, level, version, options)
        return self.up[key]

    def _start(self, key, level, version, options):
        if not os.environ.get(PROGRAMS):
            return Cluster(kubeconfig=Path(os.environ["KUBECONFIG"]), version="")
        if level == "node":
            _skip_where_no_pods_can_run()
            _leave_alone_what_runs()
        folder = self.root / f"cluster-{len(self.up)}"
        versions = () if level == "node" else ("--kubernetes", VERSIONS[version])
        try:
            _run("up", folder, "--level", level, *versions, *options)
        except BaseException:
            _run("down", folder)
            raise
        kubeconfig = folder / "pki" / "admin.kubeconfig"
        return Cluster(kubeconfig=kubeconfig, version=version, folder=folder)

    def down(self, cluster):
        """Stop a cluster, where it was started here."""
        for key in [key for key, found in self.up.items() if found is cluster]:
            del self.up[key]
        if cluster.folder is not None:
            _run("down", cluster.folder)

    def close(self):
        """Stop every cluster."""
        for cluster in list(self.up.values()):
            self.down(cluster)


def _skip_where_no_pods_can_run():
    needed = ("containerd", "runc", "iptables", "conntrack", "ip")
    missing = [name for name in needed if shutil.which(name) is None]
    if os.geteuid() != 0:
        pytest.skip("a cluster with nodes needs root")
    if missing:
        pytest.skip(
            f"a cluster with nodes needs {', '.join(missing)} in PATH; on Debian: apt-get install "
            "containerd runc iptables containernetworking-plugins conntrack ethtool socat ebtables "
            "iproute2"
        )


def _leave_alone_what_runs():
    """A machine has one cluster with nodes at a time; a second would take its networks away."""
    if not Path("/run/netns/cluster-1").exists():
        return
    found = subprocess.run(
        ["ip", "netns", "pids", "cluster-1"], capture_output=True, text=True, check=False
    )
    if found.stdout.split():
        pytest.skip("another cluster with nodes runs on this machine: `cluster down` it first")


def _run(command, *arguments):
    program = Path(os.environ[PROGRAMS]) / "cluster"
    done = subprocess.run(
        [str(part) for part in (program, command, *arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, f"cluster {command}: {done.stderr or done.stdout}"


def install_crd(api):
    """Put the resource definition in its place and wait until objects are taken."""
    crd = yaml.safe_load(CRD_FILE.read_text(encoding="utf-8"))
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd['metadata']['name']}"
    api.apply(path, crd)
    wait_for(lambda: _established(api.get(path)), "the resource definition being established")
    jobs = JOBS.format(namespace="default")
    wait_for(lambda: _answers(api, jobs), "compressionjobs being served")


def _established(crd):
    conditions = crd.get("status", {}).get("conditions") or []
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


def _answers(api, path):
    try:
        return api.get(path)
    except Refused as error:
        # Right after it was made, the first lists are answered so.
        if error.code in (404, 429):
            return None
        raise


def add_node(api, node):
    """A node that kwok plays, unless it is there."""
    spec = {name: part for name, part in node.items() if name != "status"}
    name = node["metadata"]["name"]
    try:
        api.create("/api/v1/nodes", spec)
    except Refused as error:
        assert error.code == 409
    status = {"status": node["status"]}
    api.request("PATCH", f"/api/v1/nodes/{name}/status", status, content=MERGE)


def make_namespace(api, prefix="test-"):
    """A namespace of its own for a test."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": prefix}}
    return api.create("/api/v1/namespaces", body)["metadata"]["name"]


def wait_for(look, what, *, timeout_seconds=60):
    """What ``look`` returns once it is true; a failure when that never happens."""
    end = time.monotonic() + timeout_seconds
    while not (found := look()):
        assert time.monotonic() < end, f"waited {timeout_seconds} s for {what}"
        time.sleep(0.1)
    return found


def job_path(namespace, name="", subresource=""):
    """The path of a CompressionJob, or of all in a namespace."""
    parts = [JOBS.format(namespace=namespace), quote(name), subresource]
    return "/".join(part for part in parts if part)
