"""The report: one HTML file with its style and plots inside, and nothing to load."""

from __future__ import annotations

from importlib import resources

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from autocompress import __version__
from autocompress.report.charts.svg import printable
from autocompress.report.data import ReportData
from autocompress.report.format import engine_name, glued
from autocompress.report.headline import headline, tiles
from autocompress.report.sections.budget import budget_section
from autocompress.report.sections.effort import effort_section
from autocompress.report.sections.kept import kept_section
from autocompress.report.sections.prediction import prediction_section
from autocompress.report.sections.quality import quality_section
from autocompress.report.sections.recovery import recovery_section
from autocompress.report.sections.reproduce import reproduce_section
from autocompress.report.sections.search import search_section
from autocompress.report.view import Page, Section

_SECTIONS = (
    budget_section,
    kept_section,
    quality_section,
    search_section,
    recovery_section,
    prediction_section,
    effort_section,
    reproduce_section,
)


def render(data: ReportData) -> str:
    """The whole report as HTML text; every text of ``data`` is escaped."""
    folder = resources.files("autocompress.report")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["glued"] = glued
    template = environment.from_string((folder / "report.html").read_text(encoding="utf-8"))
    style = (folder / "report.css").read_text(encoding="utf-8")
    # The style sheet is a file of this package; all other text goes through escaping.
    return printable(template.render(page=page(data), style=Markup(style)))


def page(data: ReportData) -> Page:
    """What the report shows, as values."""
    made = (make(data) for make in _SECTIONS)
    sections: tuple[Section, ...] = tuple(section for section in made if section is not None)
    return Page(
        title=data.job_name or (data.scorecard.job if data.scorecard else "") or "Compression job",
        setting=_setting(data),
        headline=headline(data),
        tiles=tiles(data),
        sections=sections,
        written_by=f"autocompress {__version__}",
    )


def _setting(data: ReportData) -> tuple[str, ...]:
    card = data.scorecard
    if card is None:
        return ()
    return (
        card.source_uri,
        f"{engine_name(card.engine)} {card.engine_version}, {card.precision}",
        card.device,
        f"{card.prompt_tokens} tokens in, {card.output_tokens} out, concurrency {card.concurrency}",
    )
