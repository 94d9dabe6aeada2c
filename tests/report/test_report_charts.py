"""Scales keep every value inside the plot box, and every plot is well-formed XML."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_samples import chosen_architecture, parent_architecture, quality

from autocompress.domain.architecture import Skip
from autocompress.report.charts.bars import score_bars
from autocompress.report.charts.gauge import gauge
from autocompress.report.charts.layers import LayerPicture, layer_picture
from autocompress.report.charts.lines import Panel, Series, line_panels, smoothed
from autocompress.report.charts.scale import (
    covering,
    for_losses,
    from_zero,
    tick_labels,
)
from autocompress.report.charts.scatter import scatter
from autocompress.report.kept import kept_axes, layer_numbers, skipped
from autocompress.report.readings import Reading

NUMBERS = st.floats(min_value=-1e12, max_value=1e12)
POSITIVE = st.floats(min_value=1e-9, max_value=1e12)
WIDTHS = st.sampled_from((342, 800))


@given(st.lists(NUMBERS), st.floats(allow_nan=False), st.booleans())
def test_no_value_leaves_the_plot_box(values, asked, upward):
    start, stop = (200.0, 20.0) if upward else (46.0, 790.0)
    for scale in (
        covering(values, start, stop),
        from_zero(values, start, stop),
        for_losses(values, start, stop),
    ):
        for value in (*values, asked, *scale.ticks()):
            assert min(start, stop) <= scale(value) <= max(start, stop)


@given(st.lists(NUMBERS, min_size=1))
def test_ticks_ascend_and_are_told_apart(values):
    ticks = covering(values, 0.0, 100.0).ticks()
    assert list(ticks) == sorted(set(ticks))
    assert len(ticks) <= 8


@given(st.lists(POSITIVE, min_size=2, max_size=30))
def test_larger_losses_never_stand_lower(values):
    scale = for_losses(values, 200.0, 0.0)
    heights = [scale(value) for value in sorted(values)]
    assert heights == sorted(heights, reverse=True)


def test_ticks_are_round():
    assert tick_labels(covering((0.0, 33.1), 0, 800, margin=0).ticks()) == ("0", "10", "20", "30")
    assert tick_labels(for_losses((0.2, 4.0), 0, 100).ticks()) == ("0.2", "0.5", "1", "2")


@st.composite
def a_reading(draw):
    bound, at_least = draw(POSITIVE), draw(st.booleans())
    wanted, measured = draw(st.floats(min_value=0.1, max_value=0.99)), draw(st.none() | POSITIVE)
    return Reading(
        name="Memory",
        unit="bytes",
        bound=bound,
        comfort=bound / wanted if at_least else bound * wanted,
        at_least=at_least,
        predicted=draw(st.none() | POSITIVE),
        measured=measured,
        parent=draw(st.none() | POSITIVE),
        met=None if measured is None else measured <= bound,
    )


@given(a_reading(), WIDTHS)
def test_a_gauge_stays_on_its_paper(reading, width):
    for element in ET.fromstring(gauge("g", width, reading)).iter():
        for name in ("x", "x1", "x2"):
            assert 0 <= float(element.get(name, 0)) <= width
        reach = float(element.get("x", 0)) + float(element.get("width", 0))
        assert element.tag == "svg" or reach <= width + 0.01


POINTS = st.lists(st.tuples(NUMBERS, NUMBERS | st.just(math.nan)), max_size=40)


@given(POINTS, WIDTHS)
def test_line_plots_are_well_formed_whatever_they_show(points, width):
    panels = tuple(
        Panel(
            title="<b>",
            series=(Series(name="a & b", points=tuple(points), class_="s1", dots=True),),
            kind=kind,
            band=(0.9, 1.0),
        )
        for kind in ("loss", "from_zero", "around")
    )
    drawn = line_panels("l", width, panels, title="t", description="d", x_title="x")
    root = ET.fromstring(drawn)
    assert "nan" not in drawn
    for circle in root.iter("circle"):
        assert 0 <= float(circle.get("cx", "")) <= width


@given(st.lists(st.tuples(POSITIVE, POSITIVE), min_size=1, max_size=12), WIDTHS)
def test_scatter_points_lie_inside_their_square(points, width):
    root = ET.fromstring(scatter("s", width, "Decode", "s", tuple(points)))
    plot = next(box for box in root.iter("rect") if box.get("class") == "plot")
    left, top = float(plot.get("x", "")), float(plot.get("y", ""))
    right = left + float(plot.get("width", "")) + 0.02
    bottom = top + float(plot.get("height", "")) + 0.02
    circles = list(root.iter("circle"))
    assert len(circles) == len(points)
    for circle in circles:
        assert left <= float(circle.get("cx", "")) <= right
        assert top <= float(circle.get("cy", "")) <= bottom


def test_the_layer_picture_marks_every_skipped_block():
    parent = parent_architecture()
    chosen = chosen_architecture(parent)
    picture = LayerPicture(
        hidden_parent=parent.hidden_size,
        hidden_kept=chosen.hidden_size,
        axes=kept_axes(parent, chosen),
    )
    root = ET.fromstring(layer_picture("p", 800, picture))
    marked = [box for box in root.iter("rect") if box.get("class") == "skipped"]
    attention, mlp = skipped(parent, chosen)
    # An attention block is drawn on two axes: KV groups and query heads.
    assert len(marked) == 2 * attention + mlp
    assert attention > 0
    assert mlp > 0


def test_shares_count_a_skipped_block_as_nothing():
    parent = parent_architecture()
    halved = replace(parent, blocks=parent.blocks[:30] + (Skip(),) * 30)
    assert [axis.share for axis in kept_axes(parent, halved)] == [0.5, 0.5, 0.5]


def test_a_layer_is_an_attention_block_and_the_mlp_behind_it():
    parent = parent_architecture()
    assert layer_numbers(parent)[:6] == (0, 0, 1, 1, 2, 2)
    alone = replace(parent, blocks=parent.blocks[1:4])
    assert layer_numbers(alone) == (0, 1, 1)


@pytest.mark.parametrize("width", [342, 800])
def test_each_benchmark_has_a_bar_per_model_and_its_chance(width):
    tasks = quality().tasks
    root = ET.fromstring(score_bars("b", width, tasks))
    classes = [element.get("class") for element in root.iter()]
    for class_ in ("fill-parent", "fill-pruned", "fill-compressed", "chance"):
        assert classes.count(class_) == len(tasks)


def test_smoothing_keeps_a_straight_line_straight():
    line = tuple((float(x), 3.0 - 0.1 * x) for x in range(30))
    for (x, y), (sx, sy) in zip(line, smoothed(line, 5), strict=True):
        assert (sx, sy) == (x, pytest.approx(y))
