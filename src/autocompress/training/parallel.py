"""Data-parallel training: several processes, each with its share of the rows of every step.

Every process holds the whole model and the whole optimizer and computes the same updates, bit for
bit. The first one validates and keeps the checkpoints.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from math import fsum
from pathlib import Path
from types import FrameType

import torch
import torch.distributed as dist
from torch import Tensor

from autocompress.domain.records import RecoveryPoint
from autocompress.stages.seats import Seat
from autocompress.training import collectives
from autocompress.training.collectives import reaching
from autocompress.training.stopping import StopRequest

#: How long one process waits for another: to come up, to validate, to publish.
_PATIENCE = timedelta(minutes=30)
_OTHER = "another process of this recovery"


@dataclass(frozen=True, kw_only=True, slots=True)
class StepShape:
    """The rows of a step, of all processes together, and the tokens of a row."""

    rows: int
    row_tokens: int


class Peers:
    """The processes that train together, seen from one of them.

    Every method but the properties and ``own_rows`` is called by all of them at the same point.

    Raises:
        PeerLostError: by these methods, when another process has ended.
    """

    def __init__(self, seat: Seat, shape: StepShape) -> None:
        self._seat, self._shape = seat, shape
        self._stop = StopRequest()
        self._asked_to_stop = False

    @property
    def leads(self) -> bool:
        """Whether this is the first process."""
        return self._seat.leads

    @property
    def own_step_rows(self) -> int:
        """How many rows of a step are this process's."""
        return len(self._share(self._seat.rank))

    def own_rows(self, rows: Tensor) -> Tensor:
        """Those of ``rows [steps x rows of a step, s]`` that are this process's."""
        share = self._share(self._seat.rank)
        steps = rows.shape[0] // self._shape.rows
        whole = rows[: steps * self._shape.rows].view(steps, self._shape.rows, -1)
        return whole[:, share.start : share.stop].flatten(0, 1)

    def average(self, gradients: Sequence[Tensor]) -> None:
        """Replace float32 gradients, means over this process's rows, by those over all rows.

        Requests to stop go along, so that all processes stop behind the same step.
        """
        with reaching(_OTHER):
            collectives.sum_in_order(gradients, weight=self._weight(self._seat.rank))
            if collectives.any_of(self._asked_to_stop):
                self._stop.request()

    def whole_points(self, points: Sequence[RecoveryPoint]) -> tuple[RecoveryPoint, ...]:
        """The curve over all rows, from that over this process's rows.

        What was made whole before stays as it is. Validation losses are the caller's own; the loss
        before the first step is one, and the first process's is taken.
        """
        own = torch.tensor([point.training_loss for point in points], dtype=torch.float64)
        with reaching(_OTHER):
            every = torch.stack(collectives.gather(own), dim=1).tolist()
        return tuple(
            replace(
                point,
                training_loss=self._mean(losses) if point.step else losses[0],
                tokens=point.step * self._shape.rows * self._shape.row_tokens,
            )
            for point, losses in zip(points, every, strict=True)
        )

    def share_folder(self, folder: Path | None, into: Path) -> None:
        """Copy the first process's ``folder``, if it has one, into the others' ``into``."""
        with reaching(_OTHER):
            collectives.share_folder(folder, into)

    def meet(self) -> None:
        """Wait until all processes are here."""
        with reaching(_OTHER):
            collectives.meet()

    @contextmanager
    def stop_on_signal(self) -> Iterator[StopRequest]:
        """While entered, SIGTERM and SIGINT to any process set the request of all."""

        def note(number: int, frame: FrameType | None) -> None:
            del number, frame
            self._asked_to_stop = True

        previous = {name: signal.signal(name, note) for name in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield self._stop
        finally:
            for name, handler in previous.items():
                signal.signal(name, handler)

    def _share(self, rank: int) -> range:
        rows, size = self._shape.rows, self._seat.size
        return range(rank * rows // size, (rank + 1) * rows // size)

    def _weight(self, rank: int) -> float:
        return len(self._share(rank)) / self._shape.rows

    def _mean(self, values: Sequence[float]) -> float:
        if len(set(values)) == 1:
            return values[0]
        return fsum(value * self._weight(rank) for rank, value in enumerate(values))


_current: list[Peers] = []


def current() -> Peers | None:
    """The processes that this one trains with; ``None`` when it trains alone."""
    return _current[-1] if _current else None


@contextmanager
def joined(seat: Seat, shape: StepShape) -> Iterator[Peers]:
    """Train together while entered; at the end, wait until all processes are there.

    Raises:
        PeerLostError: one does not come, or has ended.
    """
    has_gpu = torch.cuda.is_available()
    if has_gpu:
        torch.cuda.set_device(seat.local_rank)
    with reaching(f"process 0 of this recovery, at {seat.address}:{seat.port},"):
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if has_gpu else "gloo",
            init_method=f"tcp://{seat.address}:{seat.port}",
            rank=seat.rank,
            world_size=seat.size,
            timeout=_PATIENCE,
        )
    peers = Peers(seat, shape)
    _current.append(peers)
    try:
        yield peers
        peers.meet()
    finally:
        _current.pop()
    # Not after an error: it would wait for those that have ended.
    dist.destroy_process_group()
