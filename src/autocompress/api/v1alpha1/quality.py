"""``spec.quality``: the second gate after the budget."""

from __future__ import annotations

from typing import Annotated

from pydantic import StringConstraints

from autocompress.api.v1alpha1.fields import Count, Give, Percent, Spec
from autocompress.domain.job import QualitySettings

_DEFAULT = QualitySettings()

Suite = Annotated[
    str,
    StringConstraints(max_length=63, pattern=r"^[a-z0-9]([a-z0-9_-]*[a-z0-9])?$"),
    Give("the name of a benchmark suite, for example default"),
]


class QualitySpec(Spec):
    """``limit``: items per task, all without it; retention is of the parent's mean score."""

    suite: Suite = _DEFAULT.suite
    limit: Count | None = _DEFAULT.limit
    min_retention_percent: Percent = _DEFAULT.min_retention_percent

    def to_domain(self) -> QualitySettings:
        """As the stages see it."""
        return QualitySettings(
            suite=self.suite, limit=self.limit, min_retention_percent=self.min_retention_percent
        )
