from dataclasses import dataclass, field, make_dataclass
from enum import Enum
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocompress.contract.digest import canonical, digest

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def typed(value):
    """The value with its types: 1, 1.0 and True are equal for Python and not for a digest."""
    if isinstance(value, tuple):
        return tuple(map(typed, value))
    if isinstance(value, dict):
        return frozenset((key, typed(item)) for key, item in value.items())
    return type(value), value.hex() if isinstance(value, float) else value


@given(plain, plain)
def test_different_values_have_different_forms(one, other):
    assert (canonical(one) == canonical(other)) == (typed(one) == typed(other))


@given(st.dictionaries(st.text(), st.integers()))
def test_the_order_of_keys_does_not_matter(value):
    assert canonical(dict(reversed(value.items()))) == canonical(value)


@given(st.lists(st.integers(), min_size=2, unique=True))
def test_the_order_of_a_list_matters(value):
    assert canonical(value) != canonical(value[::-1])


def test_a_new_field_at_its_default_changes_nothing():
    old = make_dataclass("Settings", [("steps", int)])
    new = make_dataclass(
        "Settings",
        [
            ("steps", int),
            ("seed", int, field(default=7)),
            ("names", tuple, field(default_factory=tuple)),
        ],
    )
    assert digest(old(3)) == digest(new(3)) == digest(new(3, 7, ()))
    assert len({digest(new(3)), digest(new(3, 8)), digest(new(3, 7, (1,)))}) == 3


def test_a_field_at_its_default_inside_another_value_changes_nothing():
    @dataclass(frozen=True)
    class Inner:
        size: int = 1

    @dataclass(frozen=True)
    class Outer:
        inner: Inner = field(default_factory=Inner)
        name: str = ""

    assert canonical(Outer()) == canonical(Outer(inner=Inner(size=1))) == "Outer{}"
    assert canonical((Inner(),)) == "[Inner{}]"


def test_classes_of_different_names_differ():
    one = make_dataclass("One", [("size", int)])
    other = make_dataclass("Other", [("size", int)])
    assert digest(one(1)) != digest(other(1))


def test_an_enum_is_not_its_value():
    class Colour(Enum):
        RED = "red"

    class Paint(Enum):
        RED = "red"

    assert len({canonical(Colour.RED), canonical(Paint.RED), canonical("red")}) == 3


@pytest.mark.parametrize(
    "value",
    [
        Path("/x"),
        b"bytes",
        {1: "key"},
        {1},
        object(),
        int,
        float("nan"),
        float("inf"),
        [Path("/x")],
        {"a": {"b": b""}},
        1j,
    ],
    ids=repr,
)
def test_what_has_no_canonical_form_is_refused(value):
    with pytest.raises(TypeError, match="canonical form"):
        digest(value)


def test_a_digest_is_stable_between_versions():
    """The digests of finished work depend on this very text."""
    value = {"stage": "profile", "sizes": (1, 2.5), "none": None, "on": True, "é": "é"}
    assert canonical(value) == (
        "{4:none=None,2:on=True,5:sizes=[1,0x1.4000000000000p+1],5:stage=7:profile,1:é=1:é}"
    )
    assert digest("abc") == (
        "sha256:aab5f9ae99b2e38fb462025c8f72f570c9c811705d2a4277dc855d7fa293fe97"
    )
