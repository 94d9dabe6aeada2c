"""The four stages, what each reads, and what each leaves: summary and manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from autocompress.contract.digest import digest
from autocompress.domain.job import Job


class Stage(StrEnum):
    """A stage; the value is the command-line word and the suffix of a cluster job."""

    PROFILE = "profile"
    SEARCH = "search"
    RECOVER = "recover"
    VALIDATE = "validate"


#: Bumped by hand when the meaning of a stage's output changes.
STAGE_VERSIONS = {Stage.PROFILE: 2, Stage.SEARCH: 4, Stage.RECOVER: 1, Stage.VALIDATE: 2}

#: The stages whose outputs a stage reads.
UPSTREAM: Mapping[Stage, tuple[Stage, ...]] = {
    Stage.PROFILE: (),
    Stage.SEARCH: (Stage.PROFILE,),
    Stage.RECOVER: (Stage.SEARCH,),
    Stage.VALIDATE: (Stage.PROFILE, Stage.SEARCH, Stage.RECOVER),
}


class Outcome(StrEnum):
    """How a stage ended that did not fail."""

    DONE = "Done"
    BUDGET_ALREADY_MET = "BudgetAlreadyMet"
    BUDGET_NOT_MET = "BudgetNotMet"
    QUALITY_NOT_MET = "QualityNotMet"


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """What a runner is told at the end of a stage; at most 4 KiB as JSON."""

    stage: Stage
    outcome: Outcome = Outcome.DONE
    message: str = ""
    figures: Mapping[str, float | int | str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class FileEntry:
    """One file of an artifact."""

    digest: str
    size_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Effort:
    """What one run of a stage took beside time and memory.

    ``nodes`` worked at it; ``engine_starts`` are processes of the serving engine, ``bytes_moved``
    what went to and came from the store, both counted where the result was written.
    """

    nodes: int
    engine_starts: int
    bytes_moved: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """Written last: its presence, with matching digests, means that an artifact is complete.

    ``input_digest`` is the key it was made for, ``output_digest`` covers names and contents of
    its files. ``effort`` is what the run took that made it, for stages.
    """

    kind: str
    input_digest: str
    output_digest: str
    files: Mapping[str, FileEntry]
    summary: Summary | None = None
    wall_seconds: float = 0.0
    peak_memory_bytes: int = 0
    effort: Effort | None = None


def output_digest(files: Mapping[str, FileEntry]) -> str:
    """The digest of an artifact: names and contents, nothing else."""
    return digest({name: entry.digest for name, entry in files.items()})


def input_digest(
    stage: Stage, job: Job, *, source_revision: str, upstream: Mapping[Stage, str]
) -> str:
    """What decides a stage's result: the job fields that it reads, upstream output digests and
    the stage's version.

    ``source_revision`` identifies the parent's content; ``upstream`` maps every stage of
    ``UPSTREAM[stage]`` to its output digest.
    """
    read: Mapping[Stage, tuple[object, ...]] = {
        Stage.PROFILE: (job.target, job.workload, job.budget, _space_fields(job)),
        Stage.SEARCH: (job.target, job.workload, job.budget, job.search, job.text),
        Stage.RECOVER: (job.target, job.recovery, job.text),
        Stage.VALIDATE: (job.target, job.workload, job.budget, job.quality),
    }
    return digest(
        {
            "stage": stage.value,
            "version": STAGE_VERSIONS[stage],
            "source": source_revision,
            "fields": read[stage],
            "upstream": {name.value: upstream[name] for name in UPSTREAM[stage]},
        }
    )


def _space_fields(job: Job) -> tuple[object, ...]:
    return (job.search.hidden_sizes, job.search.intermediate_sizes)


def next_stage(finished: Mapping[Stage, Summary]) -> Stage | None:
    """The stage to run after those that are finished; ``None`` when the job has ended."""
    for stage in Stage:
        if stage not in finished:
            return stage
        if finished[stage].outcome is not Outcome.DONE:
            return None
    return None
