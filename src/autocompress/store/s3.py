"""A store in a bucket of MinIO, AWS S3 or another server of the S3 protocol."""

from __future__ import annotations

import io
import random
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import certifi
import urllib3
from minio import Minio
from minio.datatypes import Object
from minio.error import InvalidResponseError, MinioException, S3Error, ServerError

from autocompress.contract.errors import AccessError, DiskFullError, Reason, UnavailableError
from autocompress.store.directory import writing
from autocompress.store.protocol import check_key

PART_BYTES = 16 << 20
READ_BYTES = 1 << 20
#: Between tries of one operation, in seconds, beside those of the HTTP client.
_WAITS = (0.5, 1, 2, 4, 8, 15, 30)
#: HTTP statuses of a server that may soon serve.
_BUSY = frozenset({429, 500, 502, 503, 504})

Result = TypeVar("Result")


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


def pause_about(seconds: float) -> None:
    """Sleep for half to all of it, so that many clients do not come back at once."""
    time.sleep(seconds * random.uniform(0.5, 1))


class S3Store:
    """Objects of one bucket under one prefix.

    An operation whose failure may pass by itself (the server is busy, a connection breaks) is tried
    again for about a minute, but only once the server has answered at all: an endpoint that was
    never there is given up after about 2 s.
    """

    def __init__(
        self,
        location: Location,
        credentials: Credentials,
        *,
        ca_bundle: str | None = None,
        pause: Callable[[float], None] = pause_about,
    ) -> None:
        self._location, self._pause = location, pause
        # What changes on being repeated is sent by a client that never repeats a request.
        self._client = _client(location, credentials, ca_bundle, _patient())
        self._once = _client(location, credentials, ca_bundle, urllib3.Retry(0))
        self._answered = False

    @property
    def uri(self) -> str:
        """See ``Store``."""
        return self._location.uri

    def get(self, key: str) -> bytes:
        """See ``Store``."""
        return self._again(key, lambda: self._read(key))

    def size_bytes(self, key: str) -> int:
        """See ``Store``."""
        found = self._again(key, lambda: self._stat(key))
        return int(found.size or 0)

    def content_tag(self, key: str) -> str:
        """See ``Store``."""
        found = self._again(key, lambda: self._stat(key))
        return f"{found.size}-{found.etag}"

    def put(self, key: str, data: bytes) -> None:
        """See ``Store``."""

        def write() -> None:
            self._client.put_object(
                self._location.bucket, self._name(key), io.BytesIO(data), len(data)
            )

        self._again(key, write)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """See ``Store``. Where an answer was lost, what is there afterwards tells who wrote."""
        lost = False

        def write() -> bool:
            nonlocal lost
            try:
                # The client's public call cannot carry If-None-Match.
                self._once._put_object(
                    self._location.bucket, self._name(key), data, {"If-None-Match": "*"}
                )
            except S3Error as error:
                if error.code == "PreconditionFailed":
                    return lost and self._read(key) == data
                lost |= error.code in _UNSURE_CODES
                raise
            except (ServerError, InvalidResponseError):
                lost = True
                raise
            except urllib3.exceptions.HTTPError as error:
                lost |= not _was_not_sent(error)
                raise
            return True

        return self._again(key, write)

    def upload(self, path: Path, key: str) -> None:
        """See ``Store``."""

        def write() -> None:
            with path.open("rb") as file:
                self._client.put_object(
                    *(self._location.bucket, self._name(key), file, path.stat().st_size),
                    part_size=PART_BYTES,
                )

        self._again(key, write)

    def download(self, key: str, path: Path) -> None:
        """See ``Store``."""
        self._again(key, lambda: self._download(key, path))

    def local_path(self, key: str) -> None:
        """See ``Store``."""
        check_key(key)

    def keys(self, prefix: str) -> Iterator[str]:
        """See ``Store``."""
        if prefix:
            check_key(prefix.removesuffix("/"))
        start = f"{self._location.prefix}/" if self._location.prefix else ""

        def names() -> list[str]:
            found = self._client.list_objects(
                self._location.bucket, prefix=start + prefix, recursive=True
            )
            return [one.object_name.removeprefix(start) for one in found]

        # Sorted here: not every server lists in the order of the bytes.
        yield from sorted(self._again(prefix, names))

    def delete(self, key: str) -> None:
        """See ``Store``."""
        self._again(key, lambda: self._client.remove_object(self._location.bucket, self._name(key)))

    def _name(self, key: str) -> str:
        check_key(key)
        return f"{self._location.prefix}/{key}" if self._location.prefix else key

    def _again(self, key: str, attempt: Callable[[], Result]) -> Result:
        for wait in _WAITS:
            try:
                return self._try(key, attempt)
            except _PassingError:
                if not self._answered:
                    raise
            self._pause(wait)
        return self._try(key, attempt)

    def _try(self, key: str, attempt: Callable[[], Result]) -> Result:
        try:
            result = attempt()
        except S3Error as error:
            self._answered = True
            raise _translate(error, self._location, key) from error
        except (ServerError, InvalidResponseError) as error:
            raise self._no_s3(error) from error
        except urllib3.exceptions.HTTPError as error:
            self._answered |= isinstance(
                getattr(error, "reason", None), urllib3.exceptions.ResponseError
            )
            raise _unreached(error, self._location) from error
        self._answered = True
        return result

    def _no_s3(self, error: MinioException) -> UnavailableError:
        status = getattr(error, "status_code", None) or getattr(error, "_code", 0)
        if status in _BUSY:
            self._answered = True
            return _PassingError(f"{self._location.endpoint}: is busy or not ready ({error})")
        return UnavailableError(
            f"{self._location.endpoint}: not an S3 answer ({error}); check that the endpoint "
            "is the S3 port of the server, not its console or a proxy's error page"
        )

    def _stat(self, key: str) -> Object:
        return self._client.stat_object(self._location.bucket, self._name(key))

    def _read(self, key: str) -> bytes:
        with self._object(key) as response:
            return response.read()

    def _download(self, key: str, path: Path) -> None:
        partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        with self._object(key) as response:
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

    @contextmanager
    def _object(self, key: str) -> Iterator[urllib3.BaseHTTPResponse]:
        response = self._client.get_object(self._location.bucket, self._name(key))
        self._answered = True
        try:
            yield response
        finally:
            response.close()
            response.release_conn()


class _PassingError(UnavailableError):
    """A failure that may pass by itself."""


def _patient() -> urllib3.Retry:
    return urllib3.Retry(
        total=3, connect=2, backoff_factor=0.2, backoff_jitter=0.1, status_forcelist=sorted(_BUSY)
    )


def _client(
    location: Location, credentials: Credentials, ca_bundle: str | None, retries: urllib3.Retry
) -> Minio:
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
            ca_certs=ca_bundle or certifi.where(),
        ),
    )


def _unreached(error: urllib3.exceptions.HTTPError, location: Location) -> UnavailableError:
    cause = _cause(error)
    if "CERTIFICATE_VERIFY_FAILED" in cause:
        return UnavailableError(
            f"{location.endpoint}: its certificate is not trusted here ({cause}); name the file "
            "with its authority's certificate in AWS_CA_BUNDLE"
        )
    return _PassingError(
        f"{location.endpoint}: cannot be reached ({cause}); check that the server runs and the "
        "endpoint (AWS_ENDPOINT_URL or spec.artifacts.endpoint)"
    )


def _was_not_sent(error: urllib3.exceptions.HTTPError) -> bool:
    reason = getattr(error, "reason", error)
    return isinstance(reason, urllib3.exceptions.NewConnectionError)


_CREDENTIAL_CODES = frozenset(
    {"InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidTokenId", "ExpiredToken"}
)
#: The server has done nothing; a part of an upload may have got lost, or two writes have met.
_PASSING_CODES = frozenset(
    {
        "SlowDown",
        "SlowDownRead",
        "SlowDownWrite",
        "ServiceUnavailable",
        "TooManyRequests",
        "RequestTimeout",
        "XMinioServerNotInitialized",
        "NoSuchUpload",
        "ConditionalRequestConflict",
    }
)
#: The server may have done it, or not.
_UNSURE_CODES = frozenset({"InternalError", "OperationAborted"})
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
    passing = error.code in _PASSING_CODES | _UNSURE_CODES
    return (_PassingError if passing else UnavailableError)(
        f"{endpoint}: cannot serve {place} {said}"
    )


def _cause(error: BaseException) -> str:
    """The innermost reason, without the client's object names."""
    reason = getattr(error, "reason", None)
    while isinstance(reason, BaseException) and isinstance(
        getattr(reason, "reason", None), BaseException
    ):
        reason = reason.reason  # type: ignore[attr-defined]  # looked up just above
    text = str(reason if isinstance(reason, BaseException) else error)
    return text.rsplit("): ", 1)[-1] if "): " in text else text
