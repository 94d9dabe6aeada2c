"""URIs of a job: which schemes are known where, and what else must hold."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, StringConstraints
from pydantic_core import PydanticCustomError

from autocompress.api.v1alpha1.fields import RULE, Give

_FILE = re.compile(r"file:///\S.*", re.DOTALL)
_S3 = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[^\s?#]*)?")
_HF = re.compile(r"hf://[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_PACKAGE = re.compile(r"package:[A-Za-z0-9]([\w.-]*[A-Za-z0-9])?(/[\w.-]+)?")

_SOURCE_REMEDY = (
    "a folder, file:///folder, s3://bucket/prefix, hf://organisation/name or package:distribution"
)
_PLACE_REMEDY = "a path, file:///path or s3://bucket/prefix"


def _source(uri: str) -> str:
    _no_credentials(uri)
    if not any(form.fullmatch(uri) for form in (_FILE, _S3, _HF, _PACKAGE)):
        raise ValueError("unknown form")
    return uri


def _place(uri: str) -> str:
    _no_credentials(uri)
    if not any(form.fullmatch(uri) for form in (_FILE, _S3)):
        raise ValueError("unknown form")
    return uri


def _no_credentials(uri: str) -> None:
    authority = uri.partition("://")[2].partition("/")[0]
    if "@" in authority:
        # The value is not repeated: it may be a secret.
        raise PydanticCustomError(
            RULE,
            "holds credentials; leave them out and set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, or credentialsSecretRef on a cluster",
        )


_BOUNDED = StringConstraints(min_length=1, max_length=1024)

SourceUri = Annotated[str, _BOUNDED, AfterValidator(_source), Give(_SOURCE_REMEDY)]
"""Where a model comes from."""

PlaceUri = Annotated[str, _BOUNDED, AfterValidator(_place), Give(_PLACE_REMEDY)]
"""A file or folder, or objects in a bucket."""

Endpoint = Annotated[
    str,
    StringConstraints(max_length=255, pattern=r"^https?://[^/@\s?#]+/?$"),
    Give("http://host:port or https://host:port, without a path"),
]
