"""The place of this process among those that run one stage together, from its environment.

A node learns its place from its cluster: ``PET_NNODES``, ``PET_NODE_RANK``,
``PET_NPROC_PER_NODE``, ``PET_MASTER_ADDR`` and ``PET_MASTER_PORT``, as torchrun reads them, or from
an Indexed Job: ``AUTOCOMPRESS_NODES``, ``JOB_COMPLETION_INDEX``, ``MASTER_ADDR`` and
``MASTER_PORT``. A process of a node learns it from what started it: ``RANK``, ``WORLD_SIZE``,
``LOCAL_RANK``, ``LOCAL_WORLD_SIZE``, ``MASTER_ADDR`` and ``MASTER_PORT``, as torchrun sets them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from autocompress.contract.errors import SpecError

_PORT = "29500"


@dataclass(frozen=True, kw_only=True, slots=True)
class Seat:
    """One process of ``size``; ``address`` and ``port`` are where the first one waits."""

    rank: int
    size: int
    local_rank: int
    local_size: int
    address: str
    port: int

    def __post_init__(self) -> None:
        if not (0 <= self.rank < self.size and 0 <= self.local_rank < self.local_size):
            raise SpecError(
                f"RANK={self.rank}, WORLD_SIZE={self.size}, LOCAL_RANK={self.local_rank}, "
                f"LOCAL_WORLD_SIZE={self.local_size}: ranks must be below their sizes"
            )

    @property
    def leads(self) -> bool:
        """Whether this process validates, keeps checkpoints and publishes."""
        return self.rank == 0

    @property
    def nodes(self) -> int:
        """How many machines take part."""
        return max(1, self.size // self.local_size)

    def environment(self) -> dict[str, str]:
        """What tells another process that it has this seat."""
        return {
            "RANK": str(self.rank),
            "WORLD_SIZE": str(self.size),
            "LOCAL_RANK": str(self.local_rank),
            "LOCAL_WORLD_SIZE": str(self.local_size),
            "MASTER_ADDR": self.address,
            "MASTER_PORT": str(self.port),
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """One machine of ``nodes``, and how many processes each of them runs."""

    index: int
    nodes: int
    processes: int
    address: str
    port: int

    def __post_init__(self) -> None:
        if not (0 <= self.index < self.nodes and self.processes >= 1):
            raise SpecError(
                f"node {self.index} of {self.nodes} with {self.processes} processes: the index "
                "must be below the number of nodes, and a node runs at least one process"
            )

    def at_most(self, processes: int) -> Node:
        """The same with no more than ``processes`` in all.

        Raises:
            SpecError: that is less than one for each node.
        """
        if processes < self.nodes:
            raise SpecError(
                f"recovery.nodes: {self.nodes}: a step has {processes} sequences, at least one for "
                "each node is needed; raise recovery.stepTokens, or lower recovery.nodes or "
                "recovery.sequenceTokens"
            )
        return replace(self, processes=min(self.processes, processes // self.nodes))

    def seats(self) -> tuple[Seat, ...]:
        """The seats of this node's own processes."""
        return tuple(
            Seat(
                rank=self.index * self.processes + local_rank,
                size=self.nodes * self.processes,
                local_rank=local_rank,
                local_size=self.processes,
                address=self.address,
                port=self.port,
            )
            for local_rank in range(self.processes)
        )


def read_seat(environment: Mapping[str, str]) -> Seat | None:
    """The seat that this process was given; ``None`` for one that was not.

    Raises:
        SpecError: a variable is missing or is not what it should be.
    """
    if "RANK" not in environment or "WORLD_SIZE" not in environment:
        return None
    return Seat(
        rank=_number(environment, "RANK"),
        size=_number(environment, "WORLD_SIZE"),
        local_rank=_number(environment, "LOCAL_RANK", "0"),
        local_size=_number(environment, "LOCAL_WORLD_SIZE", "1"),
        address=_text(environment, "MASTER_ADDR"),
        port=_number(environment, "MASTER_PORT", _PORT),
    )


def read_node(environment: Mapping[str, str]) -> Node | None:
    """The place of this machine; ``None`` where it works alone.

    Raises:
        SpecError: as ``read_seat``.
    """
    if "PET_NNODES" in environment:
        return Node(
            index=_number(environment, "PET_NODE_RANK"),
            nodes=_number(environment, "PET_NNODES"),
            processes=_processes(environment),
            address=_text(environment, "PET_MASTER_ADDR"),
            port=_number(environment, "PET_MASTER_PORT", _PORT),
        )
    if "AUTOCOMPRESS_NODES" in environment:
        return Node(
            index=_number(environment, "JOB_COMPLETION_INDEX"),
            nodes=_number(environment, "AUTOCOMPRESS_NODES"),
            processes=1,
            address=_text(environment, "MASTER_ADDR"),
            port=_number(environment, "MASTER_PORT", _PORT),
        )
    return None


def _processes(environment: Mapping[str, str]) -> int:
    # Training runtimes also write what torchrun understands: auto, gpu, cpu.
    given = environment.get("PET_NPROC_PER_NODE", "1")
    return int(given) if given.isdecimal() else 1


def _text(environment: Mapping[str, str], name: str) -> str:
    value = environment.get(name)
    if not value:
        raise SpecError(f"{name}: is not set, but other variables say that processes work together")
    return value


def _number(environment: Mapping[str, str], name: str, default: str = "") -> int:
    value = environment.get(name, default)
    if not value.isdecimal():
        raise SpecError(f"{name}={value}: must be a whole number")
    return int(value)
