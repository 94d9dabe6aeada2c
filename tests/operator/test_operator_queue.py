"""When which job is visited, on a clock of the test's own."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from autocompress_operator.queue import Queue, Schedule
from autocompress_operator.snapshot import Key

A, B = Key(namespace="n", name="a"), Key(namespace="n", name="b")


def test_a_key_is_due_once_however_often_it_is_added():
    schedule = Schedule()
    for _ in range(3):
        schedule.add(A, 0)
    assert schedule.take(0) == A
    schedule.done(A)
    assert schedule.take(100) is None


def test_the_earlier_of_two_times_counts():
    schedule = Schedule()
    schedule.add(A, 10)
    schedule.add(A, 5)
    schedule.add(A, 20)
    assert schedule.take(4) is None
    assert schedule.take(5) == A
    schedule.done(A)
    assert schedule.take(100) is None


def test_a_key_in_work_waits_for_its_visitor():
    schedule = Schedule()
    schedule.add(A, 0)
    assert schedule.take(0) == A
    schedule.add(A, 1)
    assert schedule.take(50) is None
    schedule.done(A)
    assert schedule.take(50) == A


def test_a_visit_can_ask_for_the_next():
    schedule = Schedule()
    schedule.add(A, 0)
    schedule.take(0)
    schedule.done(A, 30)
    assert schedule.next_due() == 30
    assert schedule.take(30) == A


def test_failures_wait_twice_as_long_each_time_until_one_goes_well():
    schedule = Schedule()
    waits = []
    now = 0.0
    schedule.add(A, now)
    for _ in range(12):
        assert schedule.take(now) == A
        waits.append(schedule.failed(A, now))
        now += waits[-1]
    assert waits[:4] == [1, 2, 4, 8]
    assert max(waits) == waits[-1] == 300
    assert schedule.take(now) == A
    schedule.done(A, now)
    assert schedule.take(now) == A
    assert schedule.failed(A, now) == 1


def test_a_change_during_a_failing_visit_does_not_shorten_the_wait():
    schedule = Schedule()
    schedule.add(A, 0)
    schedule.take(0)
    schedule.add(A, 0)
    schedule.failed(A, 0)
    assert schedule.take(0.5) is None
    assert schedule.take(1) == A


def test_depth_and_age_are_of_what_is_due():
    schedule = Schedule()
    schedule.add(A, 0)
    schedule.add(B, 100)
    assert (schedule.waiting(10), schedule.oldest(10)) == (1, 10)
    schedule.take(10)
    assert (schedule.waiting(10), schedule.oldest(10)) == (0, 0)


@given(st.lists(st.tuples(st.sampled_from([A, B]), st.integers(0, 9)), max_size=30))
def test_every_key_that_was_added_is_taken_and_never_twice_at_once(added):
    schedule = Schedule()
    for key, at in added:
        schedule.add(key, at)
    taken = []
    while (key := schedule.take(9)) is not None:
        taken.append(key)
    assert sorted(map(str, taken)) == sorted({str(key) for key, _ in added})
    for key in taken:
        schedule.done(key)
    assert schedule.next_due() is None


def test_a_visitor_waits_until_the_queue_is_open_and_a_key_is_due():
    async def run():
        now = 0.0
        queue = Queue(lambda: now)
        queue.add(A)
        waiting = asyncio.create_task(queue.take())
        await asyncio.sleep(0)
        assert not waiting.done()
        queue.open()
        assert await waiting == A
        queue.done(A, 0.0)
        assert await queue.take() == A
        assert queue.failed(A) == 1.0
        queue.add(B)
        assert queue.depth == 1
        assert await queue.take() == B
        assert queue.oldest_seconds == 0

    asyncio.run(run())
