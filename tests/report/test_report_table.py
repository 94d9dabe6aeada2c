"""The scorecard table fits 80 columns and says everything without colours."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from autocompress.domain.records import Scorecard
from autocompress.report.data import ReportData
from autocompress.report.table import scorecard_table


def printed(card: Scorecard, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width, no_color=True, force_terminal=False)
    console.print(scorecard_table(card))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_every_line_fits_eighty_columns_and_nothing_is_cut(full: ReportData):
    assert full.scorecard is not None
    text = printed(full.scorecard)
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "…" not in text
    assert "\x1b" not in text


def test_limits_costs_and_quality_are_there(full: ReportData):
    assert full.scorecard is not None
    lines = printed(full.scorecard).splitlines()

    def row(start: str) -> list[str]:
        return next(line for line in lines if line.strip().startswith(start)).split()

    limit = row("Time per output token, P95 (ms)")
    assert limit[-7:] == ["≤", "23.2", "21.6", "22.2", "yes", "95.7", "%"]
    assert row("Parameters")[1:5] == ["135", "M", "93.0", "M"]
    assert row("hellaswag")[2:9] == ["43.1", "±", "2.9", "31.2", "38.9", "±", "2.8"]
    assert row("Mean, at least 90 %")[-4:] == ["95.1", "±", "2.1", "%"]
    text = "\n".join(lines)
    assert "budget met, quality met" in text
    assert "≥ 44.0" in text


def test_missed_limits_say_no(full: ReportData):
    card = full.scorecard
    assert card is not None
    over = replace(card.limits[1], met=False, utilization=1.04)
    text = printed(replace(card, limits=(over,), budget_met=False))
    assert "budget missed" in text
    assert "no   104.0 %" in text


def test_markup_in_names_is_printed_as_it_is(full: ReportData):
    card = full.scorecard
    assert card is not None
    text = printed(replace(card, job="[red]x[/red]", notes=("[bold]y[/bold]",)))
    assert "[red]x[/red]" in text
    assert "[bold]y[/bold]" in text
