"""Reading from an API server: the official client finds it and signs in, errors speak to people."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

import urllib3

from autocompress.contract.errors import AccessError, DataError, SpecError, UnavailableError

if TYPE_CHECKING:
    from kubernetes.client import ApiClient, ApiException

_CONNECT_SECONDS, _READ_SECONDS = 5, 60
_IN_CLUSTER_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class NotFoundError(DataError):
    """The API server knows no such object, or no such kind of object."""


class Cluster:
    """One API server, as one user. ``namespace`` is that of the context in use."""

    def __init__(self, client: ApiClient, *, namespace: str) -> None:
        self._client = client
        self.namespace = namespace

    @property
    def server(self) -> str:
        """Its address."""
        return str(self._client.configuration.host)

    def get(
        self, path: str, query: Mapping[str, str] | None = None, *, accept: str = "application/json"
    ) -> bytes:
        """The body of an answer.

        Raises:
            NotFoundError, AccessError, UnavailableError: with what the server said.
        """
        with self._answer(path, query, accept, _READ_SECONDS) as answer:
            return answer.read()

    def lines(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        accept: str = "application/json",
        read_seconds: float | None,
    ) -> Iterator[bytes]:
        """An answer line by line as it comes, without line ends; it ends when the server ends it.

        Raises:
            NotFoundError, AccessError, UnavailableError: as ``get``; the last also when nothing
                came for ``read_seconds`` (None: wait for ever).
        """
        with self._answer(path, query, accept, read_seconds) as answer:
            rest = b""
            for piece in answer.stream(1 << 16):
                *whole, rest = (rest + piece).split(b"\n")
                yield from whole
            if rest:
                yield rest

    @contextmanager
    def _answer(
        self,
        path: str,
        query: Mapping[str, str] | None,
        accept: str,
        read_seconds: float | None,
    ) -> Iterator[urllib3.HTTPResponse]:
        from kubernetes.client import ApiException

        try:
            answer = cast(
                urllib3.HTTPResponse,
                self._client.call_api(
                    path,
                    "GET",
                    query_params=list((query or {}).items()),
                    header_params={"Accept": accept},
                    auth_settings=["BearerToken"],
                    _preload_content=False,
                    _return_http_data_only=True,
                    _request_timeout=(_CONNECT_SECONDS, read_seconds),
                ),
            )
            try:
                yield answer
            finally:
                # Not read to its end, a stream's connection cannot be used again.
                answer.close()
        except ApiException as error:
            raise self._refusal(error) from error
        except urllib3.exceptions.HTTPError as error:
            raise UnavailableError(
                f"{self.server}: cannot be reached ({_cause(error)}); check the cluster and the "
                "current context (kubectl config current-context)"
            ) from error

    def _refusal(self, error: ApiException) -> Exception:
        said = _message(error)
        if error.status in (401, 403):
            return AccessError(
                f"{self.server} refuses: {said}; log in again, or ask for the ClusterRole "
                "autocompress-view of the chart"
            )
        if error.status == 404:
            return NotFoundError(f"{self.server}: {said}")
        if error.status == 400:
            return DataError(f"{self.server}: {said}")
        return UnavailableError(f"{self.server} answers {error.status}: {said}; try again")


def open_cluster(context: str | None) -> Cluster:
    """The cluster of a context of the kubeconfig (``KUBECONFIG``, ``~/.kube/config``), else the
    one that this process runs in.

    Raises:
        SpecError: the client is not installed, or there is no usable configuration.
    """
    try:
        from kubernetes import config
        from kubernetes.client import ApiClient, Configuration
    except ModuleNotFoundError as error:
        raise SpecError(
            "the Kubernetes client is not installed; pip install 'autocompress[cluster]'"
        ) from error
    settings = Configuration()
    # A cluster that is not there is told at once.
    settings.retries = False
    try:
        if not _has_kubeconfig() and "KUBERNETES_SERVICE_HOST" in os.environ:
            config.load_incluster_config(client_configuration=settings)
            namespace = _IN_CLUSTER_NAMESPACE.read_text(encoding="utf-8").strip()
        else:
            config.load_kube_config(context=context, client_configuration=settings)
            namespace = _context_namespace(context)
    except (config.ConfigException, OSError, ValueError) as error:
        raise SpecError(
            f"no cluster to talk to ({str(error).rstrip('.')}); set KUBECONFIG, or give --context "
            "with one of `kubectl config get-contexts`"
        ) from error
    return Cluster(ApiClient(settings), namespace=namespace or "default")


def _has_kubeconfig() -> bool:
    named = os.environ.get("KUBECONFIG", "")
    paths = [Path(part) for part in named.split(os.pathsep) if part]
    return any(path.exists() for path in paths or [Path.home() / ".kube" / "config"])


def _context_namespace(context: str | None) -> str:
    from kubernetes import config

    contexts, active = config.list_kube_config_contexts()
    chosen = next((each for each in contexts if each["name"] == context), active)
    return str(chosen.get("context", {}).get("namespace", ""))


def _message(error: ApiException) -> str:
    """What the server's Status object says, else the bare reason."""
    try:
        return str(json.loads(error.body)["message"])
    except (TypeError, ValueError, KeyError):
        return str(error.reason)


def _cause(error: Exception) -> str:
    """The reason without the client's object names."""
    return str(error).rsplit("): ", 1)[-1]
