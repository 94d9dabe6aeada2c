"""The report is one well-formed, self-contained file that shows what there is of a job."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import fields, replace
from html.parser import HTMLParser
from importlib import resources

import pytest
from report_samples import JOB

from autocompress.contract.stage import Outcome, Stage, Summary
from autocompress.report.data import ReportData
from autocompress.report.html import render

VOID = {"meta", "br", "hr", "img", "link", "input"}
HOSTILE = "</pre><script>alert('x')</script><img src=//evil onerror=a> & \x00\x1b"


class Reader(HTMLParser):
    """Collects texts, tags and addresses, and checks that tags nest."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.idents: list[str] = []
        self.text = ""

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        values = dict(attrs)
        self.addresses += [values[n] or "" for n in ("src", "href", "action") if n in values]
        self.idents += [values["id"]] if "id" in values else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    assert len(reader.idents) == len(set(reader.idents))
    return reader


def drawings(html: str) -> list[ET.Element]:
    return [ET.fromstring(svg) for svg in re.findall(r"<svg\b.*?</svg>", html, re.DOTALL)]


def test_the_figures_of_the_job_are_all_there(full: ReportData):
    reader = read(render(full))
    text = reader.text.replace("\u00a0", " ")
    for words in (
        "Inside the budget with 95.1 % of the parent’s quality.",
        "Time per output token, P95",
        "22.2 ms",
        "23.2 ms",
        "534 MiB",
        "561 MiB",
        "at least",
        "95.1 ± 2.1 %",
        "512 of 576",
        "hellaswag",
        "Python source",
        "median error 1.8 %, worst 3.9 %",
        "block 37 (MLP): intermediate size 768 to 640",
        "5 min 11 s",
        "3.05 GiB",
        "sha256:" + "b7" * 32,
        "2.13.0+cpu",
        "autocompress run job.yaml",
        "minUtilizationPercent: 90",
        "vLLM 0.32.0",
    ):
        assert words in text, words


def test_every_drawing_is_well_formed_and_named(full: ReportData):
    charts = [svg for svg in drawings(render(full)) if svg.get("role") == "img"]
    # Three gauges, layers, benchmarks, search, recovery, three scatter plots: each at two widths.
    assert len(charts) == 20
    for chart in charts:
        title, description = chart.find("title"), chart.find("desc")
        assert title is not None and title.text
        assert description is not None and description.text
        assert chart.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"


def test_every_plot_has_its_numbers_in_a_table(full: ReportData):
    html = render(full)
    assert html.count("<summary>Numbers</summary>") == 6
    assert html.count("<table") >= 10


def test_nothing_is_loaded(full: ReportData):
    html = render(full)
    reader = read(html)
    assert "script" not in reader.tags
    assert not {"link", "img", "iframe", "object", "embed"} & set(reader.tags)
    assert all(address.startswith("#") for address in reader.addresses)
    assert "url(" not in html
    assert "@import" not in html
    assert "default-src 'none'" in html


def test_hostile_text_stays_text(full: ReportData):
    card = full.scorecard
    assert card is not None
    tasks = tuple(replace(task, name=HOSTILE) for task in card.quality.tasks)
    texts = tuple(replace(text, name=HOSTILE) for text in card.quality.texts)
    limits = tuple(replace(limit, name=HOSTILE, unit=HOSTILE) for limit in card.limits)
    hostile = replace(
        full,
        job_text=HOSTILE,
        job_name=HOSTILE,
        command=HOSTILE,
        conditions={HOSTILE: HOSTILE},
        digests={HOSTILE: HOSTILE},
        artifacts={HOSTILE: HOSTILE},
        summaries={Stage.PROFILE: Summary(stage=Stage.PROFILE, message=HOSTILE)},
        scorecard=replace(
            card,
            job=HOSTILE,
            device=HOSTILE,
            engine=HOSTILE,
            source_uri=HOSTILE,
            notes=(HOSTILE,),
            limits=limits,
            quality=replace(card.quality, suite=HOSTILE, tasks=tasks, texts=texts),
        ),
    )
    for data in (hostile, replace(hostile, scorecard=None)):
        html = render(data)
        reader = read(html)
        assert "script" not in reader.tags
        assert "img" not in reader.tags
        assert "<script" not in html
        assert "\x00" not in html and "\x1b" not in html
        assert drawings(html)
        assert "alert('x')" in reader.text


def optional_fields() -> list[str]:
    return [field.name for field in fields(ReportData) if field.name != "job_text"]


@pytest.mark.parametrize("name", optional_fields())
def test_any_part_may_be_missing(full: ReportData, name: str):
    empty = ReportData(job_text=JOB)
    read(render(replace(full, **{name: getattr(empty, name)})))
    read(render(replace(empty, **{name: getattr(full, name)})))


def test_a_job_with_nothing_finished_says_so():
    assert "Nothing is finished yet." in read(render(ReportData(job_text=JOB))).text


def test_a_job_that_was_only_profiled_shows_its_limits_and_what_is_next(full: ReportData):
    data = ReportData(
        job_text=JOB,
        job_name=full.job_name,
        summaries={Stage.PROFILE: Summary(stage=Stage.PROFILE)},
        budget=full.budget,
        space=full.space,
        held_out=full.held_out,
        parent_costs=full.parent_costs,
        stage_costs=full.stage_costs[:1],
    )
    text = read(render(data)).text
    assert "Unfinished: profile done." in text
    assert "Search is next." in text
    assert "33.1 ms" in text  # the parent
    assert "23.2 ms" in text  # 70 percent of it
    assert "not measured" in text
    assert "Held-out architectures" in text
    assert "What was kept" not in text


def test_a_budget_that_the_parent_meets_is_the_verdict(full: ReportData):
    message = "The parent needs 701 MiB of 2 GiB."
    summary = Summary(stage=Stage.PROFILE, outcome=Outcome.BUDGET_ALREADY_MET, message=message)
    data = ReportData(job_text=JOB, summaries={Stage.PROFILE: summary}, budget=full.budget)
    text = read(render(data)).text.replace("\u00a0", " ")
    assert "The parent already fits the budget." in text
    assert message in text


def test_a_missed_limit_is_named_in_the_headline(full: ReportData):
    card = full.scorecard
    assert card is not None
    over = replace(card.limits[0], measured=0.0251, met=False, utilization=1.08)
    missed = replace(card, limits=(over, *card.limits[1:]), budget_met=False)
    html = render(replace(full, scorecard=missed))
    text = read(html).text.replace("\u00a0", " ")
    assert "Over budget: time per output token, P95." in text
    assert "measured 25.1 ms against a limit of 23.2 ms" in text
    assert "not published" in text
    assert 'class="fill-missed"' in html


def test_lost_quality_is_the_verdict_when_the_budget_holds(full: ReportData):
    card = full.scorecard
    assert card is not None
    lost = replace(card.quality, met=False, retention_percent=71.3)
    text = read(render(replace(full, scorecard=replace(card, quality=lost)))).text
    assert "Inside the budget, but too much quality was lost." in text
    assert "71.3" in text


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
def test_colours_meet_the_contrast_that_wcag_asks(mode: int):
    style = (resources.files("autocompress.report") / "report.css").read_text(encoding="utf-8")
    palette = dict(re.findall(r"--([\w-]+): (#\w{6})", style.split(":root {")[mode + 1]))
    paper = palette["paper"]
    for name in ("ink", "soft", "limit"):
        assert contrast(palette[name], paper) >= 4.5, name
    for tone in ("good", "bad"):
        assert contrast(palette[tone], palette[f"{tone}-tint"]) >= 4.5, tone
    assert contrast(palette["soft"], palette["sunken"]) >= 4.5
    for name in ("compressed", "parent", "s2", "s3", "s4", "s5"):
        assert contrast(palette[name], paper) >= 3, name
