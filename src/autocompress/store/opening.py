"""Open the store that a user named."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from autocompress.contract.errors import AccessError, SpecError
from autocompress.store.directory import DirectoryStore
from autocompress.store.protocol import Store, check_key

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


def open_store(
    uri: str, *, endpoint: str | None = None, environment: Mapping[str, str] = os.environ
) -> Store:
    """The store at a path, ``file:///path`` or ``s3://bucket/prefix``.

    For S3, ``endpoint`` (``http://host:port``) goes before ``AWS_ENDPOINT_URL``, and without both
    it is AWS; the key is read from ``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY`` and, if set,
    ``AWS_SESSION_TOKEN``; the region from ``AWS_REGION``; the file of trusted certificates from
    ``AWS_CA_BUNDLE`` or ``SSL_CERT_FILE``. Opening makes no request.

    Raises:
        SpecError: the URI or the endpoint is malformed.
        AccessError: no credentials are set.
    """
    if uri.startswith("s3://"):
        return _open_s3(uri, endpoint, environment)
    if uri.startswith("file:"):
        parts = urlsplit(uri)
        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
            raise SpecError(f"store {uri!r}: write file:///absolute/path, with three slashes")
        return _open_directory(Path(unquote(parts.path)), uri)
    if "://" in uri:
        raise SpecError(
            f"store {uri!r}: unknown scheme; give a folder, file:///path or s3://bucket/prefix"
        )
    if not uri:
        raise SpecError("store: is empty; give a folder, file:///path or s3://bucket/prefix")
    return _open_directory(Path(uri).expanduser(), uri)


def _open_directory(path: Path, uri: str) -> Store:
    for place in (path, *path.parents):
        if place.exists():
            if not place.is_dir():
                raise SpecError(f"store {uri!r}: {place} is a file; give a folder")
            break
    return DirectoryStore(path, uri=uri)


def _open_s3(uri: str, endpoint: str | None, environment: Mapping[str, str]) -> Store:
    # Late: a run in a directory needs no S3 client.
    from autocompress.store.s3 import Credentials, Location, S3Store

    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    prefix = prefix.strip("/")
    if "@" in bucket:
        raise SpecError(
            "store: credentials never belong into the URI; set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, and write s3://bucket/prefix"
        )
    if not _BUCKET.fullmatch(bucket):
        raise SpecError(
            f"store {uri!r}: {bucket!r} is not a bucket name (3 to 63 of a-z, 0-9, - and .); "
            "write s3://bucket/prefix"
        )
    if prefix:
        try:
            check_key(prefix)
        except ValueError as error:
            raise SpecError(f"store {uri!r}: {error}") from error
    address = endpoint or environment.get("AWS_ENDPOINT_URL") or ""
    if address and not re.fullmatch(r"https?://[^/@\s?#]+/?", address):
        raise SpecError(
            f"endpoint {address!r}: write http://host:port or https://host:port, without a path"
        )
    missing = [
        name for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY") if not environment.get(name)
    ]
    if missing:
        raise AccessError(f"store {uri}: {' and '.join(missing)} not set; set both to use S3")
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    return S3Store(
        Location(
            endpoint=address.rstrip("/") or "https://s3.amazonaws.com",
            bucket=bucket,
            prefix=prefix,
            # AWS says where a bucket lies when asked; other servers take any region.
            region=region or ("us-east-1" if address else None),
        ),
        Credentials(
            access_key=environment["AWS_ACCESS_KEY_ID"],
            secret_key=environment["AWS_SECRET_ACCESS_KEY"],
            session_token=environment.get("AWS_SESSION_TOKEN") or None,
        ),
        ca_bundle=_ca_bundle(environment) if address.startswith("https:") or not address else None,
    )


def _ca_bundle(environment: Mapping[str, str]) -> str | None:
    for name in ("AWS_CA_BUNDLE", "SSL_CERT_FILE"):
        path = environment.get(name)
        if path and not Path(path).is_file():
            raise SpecError(f"{name}={path}: no such file; give a file of certificates in PEM form")
        if path:
            return path
    return None
