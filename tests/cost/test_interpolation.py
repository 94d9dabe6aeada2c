"""Costs between two measured hidden sizes."""

from __future__ import annotations

import pytest

from autocompress.cost.interpolation import block_between, overhead_between
from autocompress.cost.table import BlockCost, Overhead, PhaseCost
from autocompress.domain.architecture import Mlp

BLOCK = Mlp(intermediate_size=64)


def cost(hidden_size: int, seconds: float, error: float, size: int) -> BlockCost:
    phase = PhaseCost(seconds=seconds, error_seconds=error)
    return BlockCost(
        block=BLOCK, hidden_size=hidden_size, prefill=phase, decode=phase, buffer_bytes=size
    )


def test_a_quarter_of_the_way() -> None:
    found = block_between(cost(400, 1.0, 0.4, 100), cost(800, 3.0, 1.2, 300), 500)
    assert found.hidden_size == 500
    assert found.block == BLOCK
    assert found.decode.seconds == found.prefill.seconds == pytest.approx(1.5)
    # Errors of independent measurements: sqrt((0.75 x 0.4)^2 + (0.25 x 1.2)^2).
    assert found.decode.error_seconds == pytest.approx(0.3 * 2**0.5)
    assert found.buffer_bytes == 150


def test_overhead_too() -> None:
    phase = [PhaseCost(seconds=value, error_seconds=0.0) for value in (1.0, 2.0)]
    ends = [
        Overhead(hidden_size=size, prefill=each, decode=each, buffer_bytes=size)
        for size, each in zip((10, 20), phase, strict=True)
    ]
    found = overhead_between(ends[0], ends[1], 15)
    assert (found.prefill.seconds, found.buffer_bytes) == (1.5, 15)


@pytest.mark.parametrize("size", [400, 800, 300, 900])
def test_only_in_between(size: int) -> None:
    with pytest.raises(ValueError, match="between 400 and 800"):
        block_between(cost(400, 1.0, 0.0, 1), cost(800, 1.0, 0.0, 1), size)
