"""``spec.artifacts``: where results are kept."""

from __future__ import annotations

from enum import StrEnum

from autocompress.api.v1alpha1.fields import DnsName, Spec
from autocompress.api.v1alpha1.uris import Endpoint, PlaceUri


class DeletionPolicy(StrEnum):
    """What becomes of results when the job object is deleted."""

    RETAIN = "Retain"
    DELETE = "Delete"


class SecretRef(Spec):
    """A Secret in the job's namespace."""

    name: DnsName


class ArtifactsSpec(Spec):
    """A folder or a bucket's prefix; ``endpoint`` and the Secret are for S3."""

    uri: PlaceUri
    endpoint: Endpoint | None = None
    credentials_secret_ref: SecretRef | None = None
    deletion_policy: DeletionPolicy = DeletionPolicy.RETAIN
