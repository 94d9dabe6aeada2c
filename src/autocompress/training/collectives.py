"""Exchanges between the processes of a training, all with a result that depends on ranks alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from autocompress.contract.errors import UnavailableError

#: Elements that are exchanged at once: enough to fill a network, little beside a model.
_BUCKET_ELEMENTS = 1 << 24
_FILE_PIECE_BYTES = 1 << 26


class PeerLostError(UnavailableError):
    """Another process of the training has ended or cannot be reached."""


@contextmanager
def reaching(whom: str) -> Iterator[None]:
    """Turn what a process group raises into an error for a person."""
    try:
        yield
    except (RuntimeError, ValueError, TimeoutError) as error:
        first = next(iter(str(error).splitlines()), type(error).__name__)
        raise PeerLostError(
            f"{whom} has ended or cannot be reached ({first}); look at its log, the training goes "
            "on from its last checkpoint when all are there again"
        ) from error


def sum_in_order(tensors: Sequence[Tensor], *, weight: float) -> None:
    """Replace each tensor by the sum over all ranks of tensor x that rank's ``weight``.

    Each rank adds up its part in the order of ranks, and all get the parts: the traffic of a ring,
    but a sum that no network decides. ``tensors`` are float32, of the same shapes on all ranks.
    """
    for bucket in _buckets(tensors):
        _sum_bucket(bucket, weight)


def gather(values: Tensor) -> list[Tensor]:
    """The values of every rank, in order."""
    every = [torch.empty_like(values) for _ in range(dist.get_world_size())]
    dist.all_gather(every, values)
    return every


def any_of(own: bool) -> bool:
    """Whether it is so on any rank."""
    flag = torch.tensor([float(own)])
    dist.all_reduce(flag, dist.ReduceOp.MAX)
    return bool(flag.item())


def meet() -> None:
    """Wait until every rank is here."""
    dist.all_reduce(torch.zeros(1))


def share_folder(folder: Path | None, into: Path) -> None:
    """Copy rank 0's ``folder``, which holds files only, into every other rank's ``into``.

    Without a folder nothing is copied. ``folder`` is read on rank 0 only, ``into`` written on the
    others only.
    """
    leads = dist.get_rank() == 0
    paths = sorted(folder.iterdir()) if leads and folder is not None else []
    listed = [[(f"{path.parent.name}/{path.name}", path.stat().st_size) for path in paths]]
    dist.broadcast_object_list(listed, src=0, device=torch.device("cpu"))
    for name, size_bytes in listed[0]:
        if leads and folder is not None:
            _send(folder.parent / name, size_bytes)
        else:
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            _receive(into / name, size_bytes)


def _buckets(tensors: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    bucket: list[Tensor] = []
    size = 0
    for tensor in tensors:
        if bucket and size + tensor.numel() > _BUCKET_ELEMENTS:
            yield bucket
            bucket, size = [], 0
        bucket.append(tensor)
        size += tensor.numel()
    if bucket:
        yield bucket


def _sum_bucket(tensors: list[Tensor], weight: float) -> None:
    ranks = dist.get_world_size()
    flat = torch.cat([tensor.flatten() for tensor in tensors]).mul_(weight)
    elements = flat.numel()
    flat = torch.nn.functional.pad(flat, (0, -elements % ranks))
    parts = torch.empty_like(flat)
    dist.all_to_all_single(parts, flat)
    total = parts.view(ranks, -1)[0].clone()
    for part in parts.view(ranks, -1)[1:]:
        total += part
    dist.all_gather_into_tensor(flat, total)
    begin = 0
    for tensor in tensors:
        tensor.copy_(flat[begin : begin + tensor.numel()].view_as(tensor))
        begin += tensor.numel()


def _send(path: Path, size_bytes: int) -> None:
    with path.open("rb") as file:
        for begin in range(0, size_bytes, _FILE_PIECE_BYTES):
            piece = bytearray(file.read(min(_FILE_PIECE_BYTES, size_bytes - begin)))
            dist.broadcast(torch.frombuffer(piece, dtype=torch.uint8), src=0)


def _receive(path: Path, size_bytes: int) -> None:
    with path.open("wb") as file:
        for begin in range(0, size_bytes, _FILE_PIECE_BYTES):
            piece = bytearray(min(_FILE_PIECE_BYTES, size_bytes - begin))
            dist.broadcast(torch.frombuffer(piece, dtype=torch.uint8), src=0)
            file.write(piece)
