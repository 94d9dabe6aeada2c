"""URIs of a job: which schemes are known where, and what else must hold."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, StringConstraints
from pydantic_core import PydanticCustomError

from autocompress.api.v1alpha1.fields import RULE, Give

_FILE = r"file:///[^\x00-\x20][^\x00-\x1f]*"
_S3 = r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[^\x00-\x20?#]*)?"
_HF = r"hf://[A-Za-z0-9][A-Za-z0-9_.-]*/[A-Za-z0-9][A-Za-z0-9_.-]*"
_PACKAGE = r"package:[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?(/[A-Za-z0-9_.-]+)?"

_SOURCE_REMEDY = (
    "a folder, file:///folder, s3://bucket/prefix, hf://organisation/name or package:distribution"
)
_PLACE_REMEDY = "a path, file:///path or s3://bucket/prefix"


def _no_credentials(uri: object) -> object:
    if isinstance(uri, str) and "@" in uri.partition("://")[2].partition("/")[0]:
        # The value is not repeated: it may be a secret.
        raise PydanticCustomError(
            RULE,
            "holds credentials; leave them out and set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, or credentialsSecretRef on a cluster",
        )
    return uri


SourceUri = Annotated[
    str,
    StringConstraints(max_length=1024, pattern=f"^({_FILE}|{_S3}|{_HF}|{_PACKAGE})$"),
    BeforeValidator(_no_credentials),
    Give(_SOURCE_REMEDY),
]
"""Where a model comes from."""

PlaceUri = Annotated[
    str,
    StringConstraints(max_length=1024, pattern=f"^({_FILE}|{_S3})$"),
    BeforeValidator(_no_credentials),
    Give(_PLACE_REMEDY),
]
"""A file or folder, or objects in a bucket."""

Endpoint = Annotated[
    str,
    StringConstraints(max_length=255, pattern=r"^https?://[^/@\x00-\x20?#]+/?$"),
    Give("http://host:port or https://host:port, without a path"),
]
