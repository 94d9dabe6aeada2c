"""Nothing is decided before everything of the start was seen."""

from hypothesis import given
from hypothesis import strategies as st

from autocompress_operator.filling import Filling

UIDS = st.sets(st.sampled_from("abcdefgh"))


def filling():
    told = []
    return Filling(lambda: told.append(True)), told


def test_an_empty_cluster_is_seen_at_once():
    made, told = filling()
    assert not made.is_over
    made.expect([])
    assert made.is_over
    assert told == [True]


@given(listed=UIDS, arrivals=st.lists(st.sampled_from("abcdefghxyz")), left=UIDS)
def test_it_is_over_once_all_that_was_there_was_seen_or_went(listed, arrivals, left):
    made, told = filling()
    made.expect(listed)
    seen = set()
    for uid in arrivals:
        made.saw(uid)
        seen.add(uid)
        assert made.is_over == (listed <= seen)
    made.expect(left)
    assert made.is_over == ((listed & left) <= seen or listed <= seen)
    assert told == [True] * made.is_over


def test_what_came_later_is_not_waited_for():
    made, told = filling()
    made.expect(["a", "b"])
    made.expect(["a", "b", "c"])
    made.saw("a")
    made.saw("b")
    made.saw("b")
    made.expect(["d"])
    assert told == [True]
