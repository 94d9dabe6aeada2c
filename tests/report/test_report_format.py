"""Numbers are written with units, three digits and true signs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocompress.report.format import (
    change,
    count,
    duration,
    glued,
    limit_name,
    percent,
    quantity,
    significant,
)


@pytest.mark.parametrize(
    ("base", "value", "text"),
    [
        ("s", 0.0222, "22.2 ms"),
        ("s", 1.39, "1.39 s"),
        ("s", 0.0000042, "4.20 µs"),
        ("s", 0.0, "0 s"),
        ("bytes", 534 * 2**20, "534 MiB"),
        ("bytes", 3.05 * 2**30, "3.05 GiB"),
        ("tokens/s", 45.71, "45.7 tokens/s"),
    ],
)
def test_a_quantity_gets_the_unit_that_suits_it(base, value, text):
    assert quantity(base, value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(134_515_008, "135 M"), (7808, "7\u202f808"), (93_000_000, "93.0 M"), (0, "0")],
)
def test_counts_are_short_when_large_and_whole_when_small(value, text):
    assert count(value) == text


def test_changes_carry_their_sign_and_small_ones_a_decimal():
    assert change(100, 69) == "−31 %"
    assert change(0.941, 1.012) == "+7.5 %"
    assert change(10, 10) == "±0 %"
    assert change(0, 10) == "–"


def test_durations_read_like_a_clock():
    texts = [duration(seconds) for seconds in (0.84, 42, 185, 7800)]
    assert texts == ["0.8 s", "42 s", "3 min 05 s", "2 h 10 min"]


def test_limits_are_named_in_words_and_unknown_ones_are_left_alone():
    assert limit_name("TimePerOutputTokenP95") == "Time per output token, P95"
    assert limit_name("Memory") == "Memory"
    assert limit_name("Joules") == "Joules"


def test_no_line_breaks_between_a_number_and_its_unit():
    assert glued("95.1 % of 22 ms") == "95.1\u00a0% of 22\u00a0ms"


@given(st.floats(min_value=1e-9, max_value=1e15))
def test_three_significant_digits_are_within_half_a_percent(value):
    text = significant(value).replace("\u202f", "")
    assert float(text) == pytest.approx(value, rel=0.0051)


@given(st.floats(min_value=0, max_value=10))
def test_percent_never_uses_an_ascii_hyphen(share):
    assert "-" not in percent(-share, 1)
