"""How the sliced model was brought back."""

from __future__ import annotations

from functools import partial

from autocompress.domain.records import RecoveryCurve
from autocompress.report.charts.lines import Panel, Series, line_panels, smoothed
from autocompress.report.data import ReportData
from autocompress.report.format import count, fixed, significant
from autocompress.report.view import Section, Swatch, Table, figure


def recovery_section(data: ReportData) -> Section | None:
    """Training and validation loss over tokens."""
    curve = data.curve
    if curve is None or not curve.points:
        return None
    legend = (
        Swatch(text="training, each step", shape="line", class_="line raw"),
        Swatch(text="training, moving average", shape="line", class_="line s1"),
        Swatch(text="validation", shape="dot", class_="dot s2"),
    )
    drawn = figure("recovery", partial(_draw, curve=curve), legend=legend, table=_table(curve))
    return Section(ident="recovery", title="Recovery", lead=_lead(curve), blocks=(drawn,))


def _lead(curve: RecoveryCurve) -> str:
    begun = (
        f"The chosen sizes, cut out of the reordered parent, learn the parent’s next-token "
        f"distribution over {count(curve.tokens)} tokens."
    )
    held_out = [p.validation_loss for p in curve.points if p.validation_loss is not None]
    if len(held_out) < 2:
        return begun
    first, last = significant(held_out[0]), significant(held_out[-1])
    return f"{begun} On text kept apart the divergence goes from {first} to {last} nats per token."


def _draw(ident: str, width: int, curve: RecoveryCurve) -> str:
    largest = max(point.tokens for point in curve.points)
    factor, word = next(
        (
            pair
            for pair in ((1e9, "billion "), (1e6, "million "), (1e3, "thousand "))
            if largest >= 10 * pair[0]
        ),
        (1.0, ""),
    )
    training = tuple((point.tokens / factor, point.training_loss) for point in curve.points)
    validation = tuple(
        (point.tokens / factor, point.validation_loss)
        for point in curve.points
        if point.validation_loss is not None
    )
    average = smoothed(training, max(len(training) // 30, 1))
    panel = Panel(
        title="Forward KL from the parent (nats per token)",
        series=(
            Series(name="training", points=training, class_="raw"),
            Series(name="training, moving average", points=average, class_="s1"),
            Series(name="validation", points=validation, class_="s2", dots=True),
        ),
        kind="loss",
        height=220,
    )
    return line_panels(
        ident,
        width,
        (panel,),
        title="Recovery curve",
        description="Training and validation loss by tokens of distillation.",
        x_title=f"{word}tokens",
    )


def _table(curve: RecoveryCurve) -> Table:
    shown = [point for point in curve.points if point.validation_loss is not None]
    if not shown:
        shown = list(curve.points[:: max(len(curve.points) // 12, 1)])
    rows = tuple(
        (
            str(point.step),
            count(point.tokens),
            fixed(point.training_loss, 4),
            "–" if point.validation_loss is None else fixed(point.validation_loss, 4),
            f"{point.learning_rate:.1e}",
        )
        for point in shown
    )
    header = ("Step", "Tokens", "Training loss", "Validation loss", "Learning rate")
    return Table(caption="Recovery at its validation points", header=header, rows=rows)
