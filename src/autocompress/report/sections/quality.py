"""What is left of the parent's quality: benchmarks and held-out text."""

from __future__ import annotations

from functools import partial

from autocompress.domain.records import Quality, TaskScore, TextScore
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
            Swatch(text="pruned, before recovery", shape="box", class_="fill-pruned"),
            Swatch(text="compressed", shape="box", class_="fill-compressed"),
            Swatch(text="chance", shape="line", class_="chance"),
            Swatch(text="one standard error", shape="line", class_="whisker"),
        ]
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
            f"{fixed(100 * task.pruned, 1)} ± {fixed(100 * task.pruned_error, 1)}",
            f"{fixed(100 * task.compressed, 1)} ± {fixed(100 * task.compressed_error, 1)}",
        )
        for task in quality.tasks
    ]
    means = (quality.parent_mean, quality.pruned_mean, quality.compressed_mean)
    parent, pruned, compressed = (fixed(100 * mean, 1) for mean in means)
    rows.append(("Mean", "", "", "", parent, pruned, compressed))
    return Table(
        caption="Accuracy in percent, with one standard error",
        header=("Task", "Metric", "Items", "Chance", "Parent", "Pruned", "Compressed"),
        rows=tuple(rows),
    )


def _texts(quality: Quality) -> Table:
    rows = tuple(
        (
            text.name,
            *(_bits(text, value) for value in (text.parent, text.pruned, text.compressed)),
            change(text.parent, text.compressed),
            f"{fixed(text.bytes / 1000, 1)} kB",
        )
        for text in quality.texts
    )
    return Table(
        caption="Bits per byte on held-out text (in brackets: perplexity); lower is better",
        header=("Text", "Parent", "Pruned", "Compressed", "Change", "Size"),
        rows=rows,
    )


def _bits(text: TextScore, bits_per_byte: float) -> str:
    return f"{fixed(bits_per_byte, 3)} ({fixed(text.perplexity(bits_per_byte), 1)})"
