"""Who takes part in a stage, as clusters and launchers tell it."""

from __future__ import annotations

import pytest

from autocompress.contract.errors import SpecError
from autocompress.stages.seats import Node, Seat, read_node, read_seat

TORCHRUN = {
    "RANK": "3",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "first",
    "MASTER_PORT": "1234",
}


def test_a_process_that_nothing_was_told_works_alone():
    assert read_seat({}) is None
    assert read_node({"JOB_COMPLETION_INDEX": "0"}) is None


def test_a_process_reads_its_seat_as_torchrun_sets_it():
    seat = read_seat(TORCHRUN)
    assert seat == Seat(rank=3, size=4, local_rank=1, local_size=2, address="first", port=1234)
    assert (seat.leads, seat.nodes) == (False, 2)
    assert read_seat(seat.environment()) == seat


@pytest.mark.parametrize(
    "environment",
    [
        {
            "PET_NNODES": "2",
            "PET_NODE_RANK": "1",
            "PET_NPROC_PER_NODE": "auto",
            "PET_MASTER_ADDR": "job-0.job",
            "PET_MASTER_PORT": "29500",
        },
        {
            "AUTOCOMPRESS_NODES": "2",
            "JOB_COMPLETION_INDEX": "1",
            "MASTER_ADDR": "job-0.job",
        },
    ],
)
def test_a_node_reads_its_place_as_clusters_tell_it(environment):
    node = read_node(environment)
    assert node == Node(index=1, nodes=2, processes=1, address="job-0.job", port=29500)
    (seat,) = node.seats()
    assert (seat.rank, seat.size, seat.nodes) == (1, 2, 2)


def test_seats_are_counted_over_nodes_and_no_more_than_there_is_work_for():
    node = Node(index=1, nodes=2, processes=4, address="first", port=1)
    assert [seat.rank for seat in node.seats()] == [4, 5, 6, 7]
    assert [seat.rank for seat in node.at_most(5).seats()] == [2, 3]
    assert node.at_most(100) == node
    with pytest.raises(SpecError, match=r"recovery\.nodes: 2: a step has 1 sequences"):
        node.at_most(1)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"RANK": "4"}, "RANK=4"),
        ({"RANK": "one"}, "RANK=one: must be a whole number"),
        ({"LOCAL_RANK": "2"}, "LOCAL_RANK=2"),
        ({"MASTER_ADDR": ""}, "MASTER_ADDR: is not set"),
    ],
)
def test_what_does_not_fit_is_told(change, told):
    with pytest.raises(SpecError, match=told):
        read_seat(TORCHRUN | change)
    with pytest.raises(SpecError, match="node 2 of 2"):
        read_node({"AUTOCOMPRESS_NODES": "2", "JOB_COMPLETION_INDEX": "2", "MASTER_ADDR": "x"})
