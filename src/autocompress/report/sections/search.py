"""How the architecture was found."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from autocompress.domain.records import SearchTrace
from autocompress.report.charts.lines import Panel, Series, line_panels, smoothed
from autocompress.report.data import ReportData
from autocompress.report.format import count, limit_name, percent, significant
from autocompress.report.view import Block, Bullets, Section, Swatch, Table, figure


def search_section(data: ReportData) -> Section | None:
    """Loss, utilisation and temperature over router updates; then what repair changed."""
    trace = data.trace
    if trace is None:
        return None
    names = _limit_names(trace)
    blocks: list[Block] = []
    if trace.steps:
        blocks.append(
            figure(
                "search",
                partial(_draw, panels=_panels(trace, names, _least_wanted(data))),
                legend=(
                    Swatch(text="each step", shape="line", class_="line raw"),
                    Swatch(text="moving average", shape="line", class_="line ink"),
                    *(
                        Swatch(text=limit_name(name), shape="line", class_=f"line s{index + 1}")
                        for index, name in enumerate(names[:5])
                    ),
                ),
                table=_table(trace, names),
            )
        )
    blocks.append(_choice(trace, names))
    if trace.repair_moves:
        title = "Repair after the search"
        blocks.append(Bullets(title=title, items=trace.repair_moves))
    size = f" of {_power(data.space.size())} architectures" if data.space is not None else ""
    lead = (
        f"A router chose one{size} with {count(trace.tokens)} tokens, trained to stay close to "
        "the parent and inside every limit. A falling temperature hardens its choices. The "
        "weights that it trained along are not used."
    )
    return Section(ident="search", title="Search", lead=lead, blocks=tuple(blocks))


def _draw(ident: str, width: int, panels: tuple[Panel, ...]) -> str:
    return line_panels(
        ident,
        width,
        panels,
        title="Search trace",
        description="Distillation loss, cost over each limit and temperature by router update.",
        x_title="router update",
    )


def _panels(trace: SearchTrace, names: tuple[str, ...], wanted: float) -> tuple[Panel, ...]:
    loss = tuple((float(step.step), step.distillation_loss) for step in trace.steps)
    average = smoothed(loss, max(len(loss) // 30, 1))
    used = tuple(
        Series(
            name=limit_name(name),
            points=tuple(
                (float(step.step), step.utilization[name])
                for step in trace.steps
                if name in step.utilization
            ),
            class_=f"s{index % 5 + 1}",
        )
        for index, name in enumerate(names)
    )
    heat = tuple((float(step.step), step.temperature) for step in trace.steps)
    return (
        Panel(
            title="Distillation loss (nats per token)",
            series=(
                Series(name="each step", points=loss, class_="raw"),
                Series(name="moving average", points=average, class_="ink"),
            ),
            kind="loss",
            height=150,
        ),
        Panel(
            title="Expected cost over limit",
            series=used,
            kind="around",
            band=(wanted, 1.0),
            height=150,
        ),
        Panel(
            title="Temperature",
            series=(Series(name="temperature", points=heat, class_="ink"),),
            height=70,
        ),
    )


def _limit_names(trace: SearchTrace) -> tuple[str, ...]:
    seen = dict.fromkeys(name for step in trace.steps for name in step.utilization)
    seen |= dict.fromkeys(trace.chosen_utilization)
    return tuple(seen)


def _least_wanted(data: ReportData) -> float:
    if data.scorecard is not None:
        return data.scorecard.min_utilization_percent / 100
    if data.budget is not None:
        return data.budget.min_utilization_percent / 100
    return 1.0


def _choice(trace: SearchTrace, names: tuple[str, ...]) -> Table:
    rows = tuple(
        (
            limit_name(name),
            _used(trace.argmax_utilization, name),
            _used(trace.chosen_utilization, name),
        )
        for name in names
    )
    return Table(
        caption="Share of each limit, as the cost model predicts",
        header=("Limit", "Router’s choice", "After repair"),
        rows=rows,
    )


def _used(utilization: Mapping[str, float], name: str) -> str:
    return percent(utilization[name], 1) if name in utilization else "–"


def _table(trace: SearchTrace, names: tuple[str, ...]) -> Table:
    stride = max(len(trace.steps) // 12, 1)
    shown = list(trace.steps[::stride])
    if shown[-1] is not trace.steps[-1]:
        shown.append(trace.steps[-1])
    rows = tuple(
        (
            str(step.step),
            significant(step.distillation_loss),
            significant(step.penalty),
            significant(step.temperature),
            *(_used(step.utilization, name) for name in names),
        )
        for step in shown
    )
    header = ("Update", "Loss", "Penalty", "Temperature", *(limit_name(name) for name in names))
    return Table(caption="The search at some of its updates", header=header, rows=rows)


def _power(size: int) -> str:
    """A search space's size: 10⁴⁸ rather than 49 digits."""
    if size < 1_000_000:
        return count(size)
    superscript = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
    return "10" + str(len(str(size)) - 1).translate(superscript)
