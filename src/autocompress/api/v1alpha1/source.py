"""``spec.source`` and ``spec.text``: the parent model and the text it is tuned on."""

from __future__ import annotations

from typing import Annotated

from pydantic import StringConstraints

from autocompress.api.v1alpha1.fields import Give, Spec
from autocompress.api.v1alpha1.uris import PlaceUri, SourceUri
from autocompress.domain.job import ModelSource, TextSettings

Revision = Annotated[
    str,
    StringConstraints(max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._/:-]*$"),
    Give("a digest sha256:..., or a commit, tag or branch of a hub model"),
]


class Source(Spec):
    """The parent: a folder, a bucket's prefix, a hub model, or a model shipped in a package."""

    uri: SourceUri
    revision: Revision | None = None

    def to_domain(self) -> ModelSource:
        """As the stages see it."""
        return ModelSource(uri=self.uri, revision=self.revision)


class TextSource(Spec):
    """Text for calibration, training and held-out loss; without ``uri``, the built-in set."""

    uri: PlaceUri | None = None

    def to_domain(self) -> TextSettings:
        """As the stages see it."""
        return TextSettings(uri=self.uri)
