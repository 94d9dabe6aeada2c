"""The scorecard for a terminal: readable at 80 columns and without colours."""

from __future__ import annotations

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from autocompress.domain.budget import Metric
from autocompress.domain.costs import MeasuredCosts
from autocompress.domain.records import Quality, Scorecard
from autocompress.report.format import (
    change,
    count,
    engine_name,
    fixed,
    limit_name,
    percent,
    unit_for,
)


def scorecard_table(scorecard: Scorecard) -> RenderableType:
    """Verdict, limits, costs and quality, one table under the other."""
    return Group(
        _verdict(scorecard),
        "",
        _limits(scorecard),
        _costs(scorecard),
        _quality(scorecard.quality),
        *(Text(f"Note: {note}") for note in scorecard.notes),
    )


def _verdict(card: Scorecard) -> Text:
    budget = ("budget met", "green") if card.budget_met else ("budget missed", "red")
    quality = ("quality met", "green") if card.quality.met else ("quality missed", "red")
    setting = (
        f"{card.source_uri} on {engine_name(card.engine)} {card.engine_version}, "
        f"{card.device}, {card.precision}; {card.prompt_tokens} tokens in, "
        f"{card.output_tokens} out, concurrency {card.concurrency}"
    )
    return Text.assemble(
        (card.job, "bold"), ": ", budget, ", ", quality, "\n", (setting, "dim"), overflow="fold"
    )


def _limits(card: Scorecard) -> Table:
    table = _table("Budget", "Limit", "Predicted", "Measured", "Met", "Used")
    for verdict in card.limits:
        unit = unit_for(verdict.unit, (verdict.bound, verdict.predicted, verdict.measured))
        short = _throughput(unit.symbol)
        at_least = verdict.name == Metric.OUTPUT_THROUGHPUT
        table.add_row(
            limit_name(verdict.name) + (f" ({short})" if short else ""),
            f"{'≥' if at_least else '≤'} {unit.number(verdict.bound)}",
            unit.number(verdict.predicted),
            unit.number(verdict.measured),
            Text("yes", "green") if verdict.met else Text("no", "bold red"),
            percent(verdict.utilization, 1),
        )
    return table


def _throughput(symbol: str) -> str:
    return "tok/s" if symbol == "tokens/s" else symbol


def _costs(card: Scorecard) -> Table:
    table = _table("Model", "Parent", "Compressed", "Change")
    parent, compressed = card.parent_parameters, card.compressed_parameters
    table.add_row("Parameters", count(parent), count(compressed), change(parent, compressed))
    for (name, base, before), (_, _, after) in zip(
        _figures(card.parent_costs), _figures(card.compressed_costs), strict=True
    ):
        unit = unit_for(base, (before, after))
        symbol = _throughput(unit.symbol)
        table.add_row(
            f"{name} ({symbol})", unit.number(before), unit.number(after), change(before, after)
        )
    return table


def _figures(costs: MeasuredCosts) -> tuple[tuple[str, str, float], ...]:
    return (
        ("Memory", "bytes", float(costs.memory_bytes)),
        ("Time to first token, P50", "s", costs.time_to_first_token.p50),
        ("Time to first token, P95", "s", costs.time_to_first_token.p95),
        ("Time per output token, P50", "s", costs.time_per_output_token.p50),
        ("Time per output token, P95", "s", costs.time_per_output_token.p95),
        ("End-to-end latency, P50", "s", costs.end_to_end_latency.p50),
        ("End-to-end latency, P95", "s", costs.end_to_end_latency.p95),
        ("Output throughput", "tokens/s", costs.output_tokens_per_second),
    )


def _quality(quality: Quality) -> Table:
    table = _table("Quality", "Parent", "Pruned", "Compressed", "Kept", name_width=26)
    for task in quality.tasks:
        table.add_row(
            f"{task.name} (%)",
            f"{fixed(100 * task.parent, 1)} ± {fixed(100 * task.parent_error, 1)}",
            fixed(100 * task.pruned, 1),
            f"{fixed(100 * task.compressed, 1)} ± {fixed(100 * task.compressed_error, 1)}",
            percent(task.compressed / task.parent) if task.parent else "–",
        )
    for text in quality.texts:
        table.add_row(
            f"{text.name} (bits/byte)",
            fixed(text.parent, 3),
            fixed(text.pruned, 3),
            fixed(text.compressed, 3),
            change(text.parent, text.compressed),
        )
    table.add_section()
    error = fixed(quality.retention_error_percent, 1)
    table.add_row(
        f"Mean, at least {quality.min_retention_percent} % kept",
        fixed(100 * quality.parent_mean, 1),
        fixed(100 * quality.pruned_mean, 1),
        fixed(100 * quality.compressed_mean, 1),
        Text(
            f"{fixed(quality.retention_percent, 1)} ± {error} %",
            "green" if quality.met else "bold red",
        ),
    )
    return table


def _table(title: str, *columns: str, name_width: int = 30) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), expand=False)
    table.add_column(Text(title, "bold"), overflow="fold", min_width=name_width)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table
