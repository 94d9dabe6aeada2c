"""What a report is made of.

Every part but the job's text may be missing: a job that stopped early, missed its budget or had
nothing to do still gets a report.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autocompress.contract.stage import Stage, Summary
from autocompress.domain.architecture import Architecture
from autocompress.domain.budget import Budget
from autocompress.domain.costs import MeasuredCosts, PredictedCosts
from autocompress.domain.ranking import Ranking
from autocompress.domain.records import (
    HeldOutReport,
    RecoveryCurve,
    Scorecard,
    SearchTrace,
    StageCost,
)
from autocompress.domain.space import SearchSpace


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportData:
    """Everything the report shows.

    ``summaries`` holds the finished stages. ``budget`` and ``parent_costs`` let budget gauges be
    drawn before there is a scorecard. ``block_scores`` are ``Ranking.block_scores``. ``conditions``
    names versions and settings, ``digests`` what was read and written, ``artifacts`` where results
    are, ``command`` repeats the job.
    """

    job_text: str
    job_name: str = ""
    summaries: Mapping[Stage, Summary] = field(default_factory=dict)
    budget: Budget | None = None
    space: SearchSpace | None = None
    held_out: HeldOutReport | None = None
    parent_costs: MeasuredCosts | None = None
    ranking: Ranking | None = None
    architecture: Architecture | None = None
    predicted_costs: PredictedCosts | None = None
    trace: SearchTrace | None = None
    curve: RecoveryCurve | None = None
    scorecard: Scorecard | None = None
    stage_costs: tuple[StageCost, ...] = ()
    conditions: Mapping[str, str] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)
    artifacts: Mapping[str, str] = field(default_factory=dict)
    command: str = ""

    @property
    def parent(self) -> Architecture | None:
        """The parent's sizes, from whatever knows them."""
        if self.scorecard is not None:
            return self.scorecard.parent
        return self.space.parent if self.space is not None else None

    @property
    def chosen(self) -> Architecture | None:
        """The compressed sizes, from whatever knows them."""
        if self.scorecard is not None:
            return self.scorecard.compressed
        if self.architecture is not None:
            return self.architecture
        return self.trace.chosen if self.trace is not None else None
