"""What is left of the parent's quality: benchmarks and held-out text."""

from __future__ import annotations

from functools import partial

from autocompress.domain.records import Quality, TaskScore
from autocompress.report.charts.bars import score_bars
from autocompress.report.data import ReportData
from autocompress.report.format import change, fixed
from autocompress.report.view import Block, Section, Swatch, Table, figure


def quality_section(data: ReportData) -> Section | None:
    """Benchmark bars and bits per byte, once validated."""
    if data.scorecard is None:
        return None
    quality = data.scorecard.quality
    blocks: list[Block] = []
    if quality.tasks:
        legend = [
            Swatch(text="parent", shape="box", class_="fill-parent"),
            Swatch(text="compressed", shape="box", class_="fill-compressed"),
            Swatch(text="chance", shape="line", class_="chance"),
            Swatch(text="one standard error", shape="line", class_="whisker"),
        ]
        if any(task.pruned is not None for task in quality.tasks):
            pruned = Swatch(text="pruned, before recovery", shape="box", class_="fill-pruned")
            legend.insert(1, pruned)
        blocks.append(
            figure(
                "benchmarks",
                partial(_draw, tasks=quality.tasks),
                legend=tuple(legend),
                table=_tasks(quality),
            )
        )
    if quality.texts:
        blocks.append(_texts(quality))
    kept, error = quality.retention_percent, quality.retention_error_percent
    lead = (
        f"{fixed(kept, 1)} ± {fixed(error, 1)} % of the parent’s mean score is kept over suite "
        f"“{quality.suite}”; {quality.min_retention_percent} % was asked. A difference within "
        "the standard errors says little, and a task near chance says nothing."
    )
    return Section(ident="quality", title="Quality", lead=lead, blocks=tuple(blocks))


def _draw(ident: str, width: int, tasks: tuple[TaskScore, ...]) -> str:
    return score_bars(ident, width, tasks)


def _tasks(quality: Quality) -> Table:
    rows = [
        (
            task.name,
            task.metric,
            str(task.items),
            fixed(100 * task.chance, 1),
            f"{fixed(100 * task.parent, 1)} ± {fixed(100 * task.parent_error, 1)}",
            "–" if task.pruned is None else fixed(100 * task.pruned, 1),
            f"{fixed(100 * task.compressed, 1)} ± {fixed(100 * task.compressed_error, 1)}",
        )
        for task in quality.tasks
    ]
    means = (fixed(100 * quality.parent_mean, 1), "–", fixed(100 * quality.compressed_mean, 1))
    rows.append(("Mean", "", "", "", *means))
    return Table(
        caption="Accuracy in percent, with one standard error",
        header=("Task", "Metric", "Items", "Chance", "Parent", "Pruned", "Compressed"),
        rows=tuple(rows),
    )


def _texts(quality: Quality) -> Table:
    rows = tuple(
        (
            text.name,
            fixed(text.parent, 3),
            "–" if text.pruned is None else fixed(text.pruned, 3),
            fixed(text.compressed, 3),
            change(text.parent, text.compressed),
            f"{fixed(text.bytes / 1000, 1)} kB",
        )
        for text in quality.texts
    )
    return Table(
        caption="Bits per byte on held-out text; lower is better",
        header=("Text", "Parent", "Pruned", "Compressed", "Change", "Size"),
        rows=rows,
    )
