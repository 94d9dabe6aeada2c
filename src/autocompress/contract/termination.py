"""What a stage leaves in its pod's termination message: its result, or its fault.

A runner knows a stage by exit code and this message alone; it reads neither logs nor the store.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from autocompress.contract import documents
from autocompress.contract.errors import Reason
from autocompress.contract.stage import Outcome

#: What a kubelet keeps of a termination message.
MAX_BYTES = 4096
#: A message is cut to no less than this before parts of the result are left out.
_LEAST_MESSAGE_BYTES = 240
_CUT = "…"


@dataclass(frozen=True, kw_only=True, slots=True)
class LimitReport:
    """One limit of the budget, in the unit of ``unit`` (ms, bytes or tokens/s).

    ``predicted`` is None until an architecture is chosen, ``measured`` and ``met`` until
    validation; where the parent meets the budget already, they are the parent's.
    """

    name: str
    unit: str
    limit: float
    predicted: float | None = None
    measured: float | None = None
    met: bool | None = None
    utilization_percent: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskReport:
    """Accuracy of parent (``baseline``) and compressed model on one benchmark, as fractions."""

    name: str
    baseline: float
    measured: float
    standard_error: float


@dataclass(frozen=True, kw_only=True, slots=True)
class QualityReport:
    """Mean accuracies, as fractions, and the share kept."""

    suite: str
    baseline: float
    measured: float
    retention_percent: float
    tasks: tuple[TaskReport, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class CostReport:
    """What the run took that made a stage's result; runs that were cut short are not in it.

    ``device_hours``: wall time of every accelerator that was held. ``tokens``: text that models
    were trained on. ``engine_starts`` and ``bytes_moved`` (to and from the store) are None for
    results of before they were counted.
    """

    wall_seconds: float
    device_hours: float
    tokens: int
    engine_starts: int | None = None
    bytes_moved: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelReport:
    """The published model: where it is, and the digest it is published under."""

    uri: str
    manifest_uri: str
    digest: str


@dataclass(frozen=True, kw_only=True, slots=True)
class StageReport:
    """A finished stage. ``stage`` is the stage's value, or ``preflight`` or ``cleanup``.

    ``input_digest``, ``output_digest`` and ``manifest_uri`` identify its artifact in the store;
    they are empty for preflight and cleanup.
    """

    stage: str
    outcome: Outcome
    message: str
    source_revision: str = ""
    input_digest: str = ""
    output_digest: str = ""
    manifest_uri: str = ""
    figures: Mapping[str, float | int | str] = field(default_factory=dict)
    budget: tuple[LimitReport, ...] = ()
    quality: QualityReport | None = None
    model: ModelReport | None = None
    cost: CostReport | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class StageFault:
    """Why a stage failed; the exit code says whether a retry makes sense."""

    stage: str
    reason: Reason
    message: str


def encode(left: StageReport | StageFault) -> bytes:
    """The termination message: JSON of at most ``MAX_BYTES``, always whole.

    What does not fit is left out in this order: figures, most of the message, the benchmarks one
    by one from the last, and only then the rest of what a runner shows, the identity of the
    result last of all.
    """
    for smaller in _ever_smaller(left):
        data = documents.dump_line(smaller)
        if len(data) <= MAX_BYTES:
            return data
    raise ValueError(f"no termination message of {MAX_BYTES} bytes holds the names in {left}")


def shorten(text: str, max_bytes: int) -> str:
    """``text`` in at most ``max_bytes`` of UTF-8, with an ellipsis where something was cut.

    Of several lines the first and the last ones stay: they say what failed, and how. One line is
    cut behind a sentence or a word.
    """
    if len(text.encode()) <= max_bytes:
        return text
    first, _, rest = text.partition("\n")
    if rest and len(first.encode()) <= max_bytes // 2:
        head = f"{first}\n{_CUT}"
        tail = ""
        for line in reversed(rest.rstrip().split("\n")):
            if len(f"{head}\n{line}{tail}".encode()) > max_bytes:
                break
            tail = f"\n{line}{tail}"
        if tail:
            return head + tail
    room = max(0, max_bytes - len(f" {_CUT}".encode()))
    kept = text.encode()[:room].decode(errors="ignore")
    for end in (". ", "; ", " "):
        place = kept.rfind(end)
        if place > len(kept) // 2:
            return f"{kept[: place + len(end)].rstrip()} {_CUT}"
    return kept + _CUT if room else ""


def _ever_smaller(left: StageReport | StageFault) -> Iterator[StageReport | StageFault]:
    left = replace(left, message=_readable(left.message))
    yield left
    if isinstance(left, StageFault):
        yield from _with_shorter_messages(left, 0)
        return
    left = replace(left, figures={})
    yield left
    yield from _with_shorter_messages(left, _LEAST_MESSAGE_BYTES)
    left = replace(left, message=shorten(left.message, _LEAST_MESSAGE_BYTES))
    while left.quality is not None and left.quality.tasks:
        left = replace(left, quality=replace(left.quality, tasks=left.quality.tasks[:-1]))
        yield left
    left = replace(left, message="")
    yield left
    while left.budget:
        left = replace(left, budget=left.budget[:-1])
        yield left
    left = replace(left, cost=None, quality=None)
    yield left
    yield replace(left, manifest_uri="")


def _with_shorter_messages(
    left: StageReport | StageFault, least_bytes: int
) -> Iterator[StageReport | StageFault]:
    """From just short enough, if quoting in JSON takes no more room elsewhere, downwards."""
    excess = len(documents.dump_line(left)) - MAX_BYTES
    size = len(left.message.encode()) - excess
    while size > least_bytes:
        yield replace(left, message=shorten(left.message, size))
        size -= 64
    yield replace(left, message=shorten(left.message, least_bytes))


def _readable(text: str) -> str:
    """Logs and file names may hold control characters, and what no encoding can write."""
    return "".join(
        character if character.isprintable() or character in "\n\t" else " " for character in text
    )
