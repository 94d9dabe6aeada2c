from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocompress.api.v1alpha1.fields import parse_quantity

SCALES = {
    "": 1,
    "k": 1000,
    "M": 1000**2,
    "G": 1000**3,
    "T": 1000**4,
    "P": 1000**5,
    "E": 1000**6,
    "Ki": 1024,
    "Mi": 1024**2,
    "Gi": 1024**3,
    "Ti": 1024**4,
    "Pi": 1024**5,
    "Ei": 1024**6,
}


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("24Gi", 24 * 1024**3),
        ("1.5G", 1_500_000_000),
        ("1.5Gi", 3 * 1024**3 // 2),
        ("0.5Ki", 512),
        (".5k", 500),
        ("12.k", 12_000),
        ("12e9", 12 * 10**9),
        ("1.5E3", 1500),
        ("1500e-2", 15),
        ("1E", 10**18),
        ("1000m", 1),
        ("1024", 1024),
        (1024, 1024),
        ("9223372036854775807", 2**63 - 1),
        ("007", 7),
    ],
)
def test_a_quantity_is_its_exact_number_of_bytes(text, size_bytes):
    assert parse_quantity(text) == size_bytes


@pytest.mark.parametrize(
    "text",
    [
        *("", "Gi", "24 Gi", "24GiB", "24gi", "24K", "-1Gi", "+1", "0", "0Gi", "1.5", "1m"),
        *("0.1Ki", "1e", "1e3Gi", "9223372036854775808", "16Ei", "1e99", "1_000", "٣Gi", "1\n"),
        *(True, 0, -5),
    ],
)
def test_what_is_no_whole_number_of_bytes_is_refused(text):
    with pytest.raises(ValueError, match="is not a"):
        parse_quantity(text)


@given(st.integers(1, 10**6), st.sampled_from(sorted(SCALES)))
def test_a_suffix_multiplies(number, suffix):
    expected = number * SCALES[suffix]
    if expected < 1 << 63:
        assert parse_quantity(f"{number}{suffix}") == expected


@given(
    st.decimals(min_value=1, max_value=10**6, places=3),
    st.sampled_from(sorted(set(SCALES) - {""})),
)
def test_a_decimal_is_rounded_only_where_nobody_notices(number, suffix):
    exact = number * Decimal(SCALES[suffix])
    if exact < 1 << 63 and (exact == int(exact) or exact >= 1 << 40):
        assert abs(parse_quantity(f"{number}{suffix}") - exact) <= Decimal("0.5")
    else:
        with pytest.raises(ValueError, match="whole number of bytes"):
            parse_quantity(f"{number}{suffix}")


@given(st.text(max_size=12))
def test_any_text_is_either_read_or_refused(text):
    try:
        assert parse_quantity(text) >= 1
    except ValueError as error:
        assert repr(text) in str(error)
