"""The verdict in words, and the few figures that matter most."""

from __future__ import annotations

from typing import Literal

from autocompress.contract.stage import Outcome, Stage, Summary, next_stage
from autocompress.domain.costs import LimitVerdict
from autocompress.domain.records import Scorecard
from autocompress.report.data import ReportData
from autocompress.report.format import (
    change,
    count,
    fixed,
    limit_name,
    percent,
    quantity,
    unit_for,
    within_sentence,
)
from autocompress.report.readings import limit_named
from autocompress.report.view import Headline, Tile

Tone = Literal["good", "bad", "neutral"]


def headline(data: ReportData) -> Headline:
    """From the scorecard when there is one, else from the last finished stage."""
    if data.scorecard is not None:
        return _judged(data.scorecard)
    last = _last_summary(data)
    if last is not None and last.outcome is Outcome.BUDGET_ALREADY_MET:
        return Headline(
            verdict="The parent already fits the budget.",
            explanation=last.message or "Nothing was compressed and nothing was published.",
            badges=(("Budget already met", "neutral"),),
        )
    if last is not None and last.outcome is not Outcome.DONE:
        words = {
            Outcome.BUDGET_NOT_MET: "The budget was missed.",
            Outcome.QUALITY_NOT_MET: "Too much quality was lost.",
        }
        return Headline(
            verdict=words.get(last.outcome, str(last.outcome)),
            explanation=last.message,
            badges=((f"Ended after {last.stage}", "bad"),),
        )
    return _unfinished(data, last)


def tiles(data: ReportData) -> tuple[Tile, ...]:
    """Parameters, every limited metric, quality."""
    card = data.scorecard
    if card is None:
        return ()
    share = change(card.parent_parameters, card.compressed_parameters)
    found = [
        Tile(
            name="Parameters",
            value=count(card.compressed_parameters),
            unit="",
            detail=f"{share} from {count(card.parent_parameters)}",
        )
    ]
    for verdict in card.limits[:3]:
        limit = limit_named(verdict.name)
        detail = f"limit {quantity(verdict.unit, verdict.bound)}"
        if limit is not None:
            before = card.parent_costs.value(limit)
            detail = f"{change(before, verdict.measured)} from {quantity(verdict.unit, before)}"
        unit = unit_for(verdict.unit, (verdict.measured,))
        found.append(
            Tile(
                name=limit_name(verdict.name),
                value=unit.number(verdict.measured),
                unit=unit.symbol,
                detail=detail,
            )
        )
    quality = card.quality
    error = fixed(quality.retention_error_percent, 1)
    found.append(
        Tile(
            name="Quality kept",
            value=fixed(quality.retention_percent, 1),
            unit="%",
            detail=f"± {error} over {len(quality.tasks)} tasks",
        )
    )
    return tuple(found)


def _judged(card: Scorecard) -> Headline:
    size = (
        f"{percent(card.compressed_parameters / card.parent_parameters)} of the parent’s parameters"
    )
    kept = f"{fixed(card.quality.retention_percent, 1)} % of the parent’s quality"
    short = kept.replace("the parent’s", "its")
    missed = tuple(verdict for verdict in card.limits if not verdict.met)
    badges: tuple[tuple[str, Tone], ...] = (
        ("Budget met" if card.budget_met else "Budget missed", _tone(card.budget_met)),
        ("Quality met" if card.quality.met else "Quality missed", _tone(card.quality.met)),
    )
    if not card.budget_met:
        names = " and ".join(within_sentence(limit_name(verdict.name)) for verdict in missed)
        verdict = f"Over budget: {names or 'a limit was missed'}."
        explanation = " ".join(_miss(each) for each in missed)
        return Headline(
            verdict=verdict,
            explanation=(
                f"{explanation} The model keeps {size} and {short}. It was not published."
            ),
            badges=badges,
        )
    if not card.quality.met:
        return Headline(
            verdict="Inside the budget, but too much quality was lost.",
            explanation=(
                f"The model keeps {size} and {short}, where at least "
                f"{card.quality.min_retention_percent} % was asked. It was not published."
            ),
            badges=badges,
        )
    return Headline(
        verdict=f"Inside the budget with {kept}.",
        explanation=f"{_all_met(card)} The model keeps {size}.",
        badges=badges,
    )


def _all_met(card: Scorecard) -> str:
    # The closest limit is the one that binds.
    binding = max(card.limits, key=lambda verdict: verdict.utilization)
    used = percent(binding.utilization, 1)
    name = limit_name(binding.name)
    if len(card.limits) == 1:
        return f"{name} uses {used} of its limit, as measured in the serving engine."
    return (
        f"{_both_or_all(len(card.limits))} limits hold as measured in the serving engine; "
        f"{within_sentence(name)} is the closest, at {used} of its limit."
    )


def _both_or_all(number: int) -> str:
    return {2: "Both", 3: "All three", 4: "All four"}.get(number, f"All {number}")


def _miss(verdict: LimitVerdict) -> str:
    unit = unit_for(verdict.unit, (verdict.bound, verdict.measured))
    return (
        f"{limit_name(verdict.name)} measured {unit.text(verdict.measured)} "
        f"against a limit of {unit.text(verdict.bound)}."
    )


def _last_summary(data: ReportData) -> Summary | None:
    done = [data.summaries[stage] for stage in Stage if stage in data.summaries]
    return done[-1] if done else None


def _unfinished(data: ReportData, last: Summary | None) -> Headline:
    following = next_stage(data.summaries)
    if last is None:
        return Headline(
            verdict="Nothing is finished yet.",
            explanation="The job begins with profile: what each block costs in the serving engine.",
            badges=(("Not started", "neutral"),),
        )
    finished = ", ".join(stage.value for stage in Stage if stage in data.summaries)
    remaining = f" {following.value.capitalize()} is next." if following else ""
    message = f" {last.message}" if last.message else ""
    return Headline(
        verdict=f"Unfinished: {finished} done.",
        explanation=f"There is no verdict before validate.{remaining}{message}",
        badges=((f"{len(data.summaries)} of {len(Stage)} stages", "neutral"),),
    )


def _tone(met: bool) -> Tone:
    return "good" if met else "bad"
