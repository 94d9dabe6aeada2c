"""A store in a bucket of MinIO, AWS S3 or another server of the S3 protocol."""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import certifi
import urllib3
from minio import Minio
from minio.error import InvalidResponseError, S3Error, ServerError

from autocompress.contract.errors import AccessError, DiskFullError, Reason, UnavailableError
from autocompress.store.directory import writing
from autocompress.store.protocol import check_key

PART_BYTES = 16 << 20
READ_BYTES = 1 << 20
_CONFLICT_TRIES = 5


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """An access key; ``repr`` shows no secret."""

    access_key: str
    secret_key: str
    session_token: str | None = None

    def __repr__(self) -> str:
        return f"Credentials({self.access_key!r})"


@dataclass(frozen=True, kw_only=True, slots=True)
class Location:
    """A bucket of an endpoint (``http://host:port``), and the prefix of all keys in it."""

    endpoint: str
    bucket: str
    prefix: str
    region: str | None

    @property
    def uri(self) -> str:
        """``s3://bucket/prefix``."""
        return f"s3://{self.bucket}" + (f"/{self.prefix}" if self.prefix else "")


class S3Store:
    """Objects of one bucket under one prefix. Refused connections are given up after about 2 s."""

    def __init__(self, location: Location, credentials: Credentials) -> None:
        self._location = location
        # A reply that was lost must not make a conditional write look like somebody else's,
        # so that one request is never repeated by the client.
        self._client = _client(location, credentials, _patient())
        self._once = _client(location, credentials, urllib3.Retry(0))

    @property
    def uri(self) -> str:
        """See ``Store``."""
        return self._location.uri

    def get(self, key: str) -> bytes:
        """See ``Store``."""
        with self._translated(key), self._object(key) as response:
            return response.read()

    def size_bytes(self, key: str) -> int:
        """See ``Store``."""
        with self._translated(key):
            found = self._client.stat_object(self._location.bucket, self._name(key))
            return int(found.size or 0)

    def content_tag(self, key: str) -> str:
        """See ``Store``."""
        with self._translated(key):
            found = self._client.stat_object(self._location.bucket, self._name(key))
            return f"{found.size}-{found.etag}"

    def put(self, key: str, data: bytes) -> None:
        """See ``Store``."""
        with self._translated(key):
            self._client.put_object(
                self._location.bucket, self._name(key), io.BytesIO(data), len(data)
            )

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """See ``Store``."""
        with self._translated(key):
            for tries_left in reversed(range(_CONFLICT_TRIES)):
                try:
                    # The client's public call cannot carry If-None-Match.
                    self._once._put_object(
                        self._location.bucket, self._name(key), data, {"If-None-Match": "*"}
                    )
                except S3Error as error:
                    if error.code == "PreconditionFailed":
                        return False
                    # Two writes met; S3 asks both to try again.
                    if error.code != "ConditionalRequestConflict" or not tries_left:
                        raise
                else:
                    return True
        raise AssertionError("not reached: the last try returns or raises")

    def upload(self, path: Path, key: str) -> None:
        """See ``Store``."""
        size_bytes = path.stat().st_size
        with path.open("rb") as file, self._translated(key):
            self._client.put_object(
                self._location.bucket, self._name(key), file, size_bytes, part_size=PART_BYTES
            )

    def download(self, key: str, path: Path) -> None:
        """See ``Store``."""
        partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        with self._translated(key), self._object(key) as response:
            size_bytes = int(response.headers.get("Content-Length", "0"))
            with writing(path, size_bytes):
                path.parent.mkdir(parents=True, exist_ok=True)
                try:
                    with partial.open("xb") as target:
                        for piece in response.stream(READ_BYTES):
                            target.write(piece)
                    partial.replace(path)
                finally:
                    partial.unlink(missing_ok=True)

    def local_path(self, key: str) -> None:
        """See ``Store``."""
        check_key(key)

    def keys(self, prefix: str) -> Iterator[str]:
        """See ``Store``."""
        if prefix:
            check_key(prefix.removesuffix("/"))
        start = f"{self._location.prefix}/" if self._location.prefix else ""
        with self._translated(prefix):
            # Sorted here: not every server lists in the order of the bytes.
            yield from sorted(
                found.object_name.removeprefix(start)
                for found in self._client.list_objects(
                    self._location.bucket, prefix=start + prefix, recursive=True
                )
            )

    def delete(self, key: str) -> None:
        """See ``Store``."""
        with self._translated(key):
            self._client.remove_object(self._location.bucket, self._name(key))

    def _name(self, key: str) -> str:
        check_key(key)
        return f"{self._location.prefix}/{key}" if self._location.prefix else key

    @contextmanager
    def _object(self, key: str) -> Iterator[urllib3.BaseHTTPResponse]:
        response = self._client.get_object(self._location.bucket, self._name(key))
        try:
            yield response
        finally:
            response.close()
            response.release_conn()

    @contextmanager
    def _translated(self, key: str) -> Iterator[None]:
        try:
            yield
        except S3Error as error:
            raise _translate(error, self._location, key) from error
        except (ServerError, InvalidResponseError) as error:
            raise UnavailableError(
                f"{self._location.endpoint}: not an S3 answer ({error}); check that the endpoint "
                "is the S3 port of the server, not its console or a proxy's error page"
            ) from error
        except urllib3.exceptions.HTTPError as error:
            raise UnavailableError(
                f"{self._location.endpoint}: cannot be reached ({_cause(error)}); check that the "
                "server runs and the endpoint (AWS_ENDPOINT_URL or spec.artifacts.endpoint)"
            ) from error


def _patient() -> urllib3.Retry:
    return urllib3.Retry(
        total=3, connect=2, backoff_factor=0.2, status_forcelist=(500, 502, 503, 504)
    )


def _client(location: Location, credentials: Credentials, retries: urllib3.Retry) -> Minio:
    endpoint = urllib3.util.parse_url(location.endpoint)
    return Minio(
        endpoint.netloc or "",
        credentials.access_key,
        credentials.secret_key,
        session_token=credentials.session_token,
        secure=endpoint.scheme == "https",
        region=location.region,
        http_client=urllib3.PoolManager(
            timeout=urllib3.Timeout(connect=5, read=60),
            retries=retries,
            maxsize=10,
            cert_reqs="CERT_REQUIRED",
            ca_certs=certifi.where(),
        ),
    )


_CREDENTIAL_CODES = frozenset(
    {"InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidTokenId", "ExpiredToken"}
)
_FULL_CODES = frozenset({"XMinioStorageFull", "InsufficientStorage", "QuotaExceeded"})


def _translate(
    error: S3Error, location: Location, key: str
) -> KeyError | AccessError | DiskFullError | UnavailableError:
    endpoint, place = location.endpoint, f"{location.bucket}/{key}"
    said = f"({error.code}: {error.message})"
    if error.code == "NoSuchKey":
        return KeyError(key)
    if error.code in _FULL_CODES:
        return DiskFullError(f"{endpoint} has no space left for {place} {said}")
    refusals = {
        "NoSuchBucket": f"bucket {location.bucket!r} does not exist at {endpoint}; make it, or "
        "correct the store's s3:// URI",
        "AccessDenied": f"{endpoint} denies access to {place} {said}; the key needs s3:GetObject, "
        "s3:PutObject, s3:DeleteObject and s3:ListBucket there",
        "RequestTimeTooSkewed": f"{endpoint} refuses the request because this machine's clock is "
        f"wrong {said}; set it, then run again",
    } | dict.fromkeys(
        _CREDENTIAL_CODES,
        f"{endpoint} refuses the credentials {said}; check AWS_ACCESS_KEY_ID and "
        "AWS_SECRET_ACCESS_KEY",
    )
    if error.code in refusals:
        missing = error.code == "NoSuchBucket"
        return AccessError(
            refusals[error.code],
            reason=Reason.BUCKET_NOT_FOUND if missing else Reason.CREDENTIALS_INVALID,
        )
    return UnavailableError(f"{endpoint}: cannot serve {place} {said}")


def _cause(error: BaseException) -> str:
    """The innermost reason, without the client's object names."""
    reason = getattr(error, "reason", None)
    while isinstance(reason, BaseException) and isinstance(
        getattr(reason, "reason", None), BaseException
    ):
        reason = reason.reason  # type: ignore[attr-defined]  # looked up just above
    text = str(reason if isinstance(reason, BaseException) else error)
    return text.rsplit("): ", 1)[-1] if "): " in text else text
