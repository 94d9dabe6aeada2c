"""``CompressionJob``: the whole object, and its way into the domain."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from autocompress.api.v1alpha1.artifacts import ArtifactsSpec
from autocompress.api.v1alpha1.budget import BudgetSpec
from autocompress.api.v1alpha1.fields import DnsName, Give, Spec, refuse
from autocompress.api.v1alpha1.pods import refuse_repeated
from autocompress.api.v1alpha1.quality import QualitySpec
from autocompress.api.v1alpha1.recovery import RecoverySpec
from autocompress.api.v1alpha1.running import RunPolicy, StageTemplate
from autocompress.api.v1alpha1.search import SearchSpec
from autocompress.api.v1alpha1.source import Source, TextSource
from autocompress.api.v1alpha1.target import TargetSpec
from autocompress.domain.job import Job

GROUP = "autocompress.dev"
API_VERSION = "autocompress.dev/v1alpha1"
KIND = "CompressionJob"

Name = Annotated[
    str,
    StringConstraints(max_length=30, pattern=r"^[a-z]([a-z0-9-]*[a-z0-9])?$"),
    Give("at most 30 lower-case letters, digits and -, beginning with a letter"),
]
NoteKey = Annotated[str, StringConstraints(min_length=1, max_length=317)]
NoteText = Annotated[str, StringConstraints(max_length=1 << 18), Give("a text, in quotes")]
Notes = Annotated[dict[NoteKey, NoteText], Field(max_length=64)]


class Metadata(Spec):
    """Of Kubernetes' object metadata, what a person writes."""

    name: Name
    namespace: DnsName | None = None
    labels: Notes = Field(default_factory=dict)
    annotations: Notes = Field(default_factory=dict)


class JobSpec(Spec):
    """What to compress, for which deployment, inside which budget."""

    source: Source
    target: TargetSpec
    budget: BudgetSpec
    quality: QualitySpec = Field(default_factory=QualitySpec)
    search: SearchSpec = Field(default_factory=SearchSpec)
    recovery: RecoverySpec = Field(default_factory=RecoverySpec)
    text: TextSource = Field(default_factory=TextSource)
    artifacts: ArtifactsSpec | None = None
    stage_templates: Annotated[tuple[StageTemplate, ...], Field(max_length=5)] = ()
    run_policy: RunPolicy = Field(default_factory=RunPolicy)
    suspend: bool = False
    service_account_name: DnsName | None = None

    @model_validator(mode="after")
    def _between_parts(self) -> Self:
        refuse_repeated("stageTemplates", "name", [part.name for part in self.stage_templates])
        faults = {}
        family = self.search.family_budgets
        if len(family) > 1:
            faults["search.familyBudgets"] = (
                "searching for several budgets at once is not in this version; leave it out and "
                "run one job for each budget (they share profile, ranking and reordered parent)"
            )
        elif family and family != (self.budget,):
            faults["search.familyBudgets"] = "does not hold spec.budget; add it to the list"
        refuse(faults)
        return self


class CompressionJob(Spec):
    """A job as a user writes it."""

    api_version: Annotated[Literal["autocompress.dev/v1alpha1"], Give(API_VERSION)]
    kind: Annotated[Literal["CompressionJob"], Give(KIND)]
    metadata: Metadata
    spec: JobSpec

    def to_domain(self) -> Job:
        """What the stages read, in base units; how stages are run is not in it."""
        spec = self.spec
        return Job(
            name=self.metadata.name,
            source=spec.source.to_domain(),
            target=spec.target.to_domain(),
            workload=spec.target.workload.to_domain(),
            budget=spec.budget.to_domain(),
            quality=spec.quality.to_domain(),
            search=spec.search.to_domain(),
            recovery=spec.recovery.to_domain(),
            text=spec.text.to_domain(),
        )
