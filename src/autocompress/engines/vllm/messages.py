"""What a stage and the step-timing process say to each other: one JSON line per message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelArguments:
    """A model by a name of its own, and the engine's command-line arguments for it."""

    name: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Open:
    """Build models side by side; each is answered, in order."""

    models: tuple[ModelArguments, ...]
    kind: Literal["open"] = "open"


@dataclass(frozen=True, kw_only=True, slots=True)
class Measure:
    """Time one prefill and ``decode_steps`` decode steps of a model that is open.

    ``decode_context_tokens``: tokens in the context at the middle of the timed decode steps.
    """

    name: str
    prompt_tokens: int
    batch: int
    decode_context_tokens: int
    decode_steps: int
    vocabulary_size: int
    seed: int
    kind: Literal["measure"] = "measure"


@dataclass(frozen=True, kw_only=True, slots=True)
class Close:
    """Drop a model."""

    name: str
    kind: Literal["close"] = "close"


@dataclass(frozen=True, kw_only=True, slots=True)
class Ready:
    """The process has loaded the engine; ``engine_version`` is the engine's own word."""

    engine_version: str
    kind: Literal["ready"] = "ready"


@dataclass(frozen=True, kw_only=True, slots=True)
class Opened:
    """A model is ready; figures by the engine's own block accounting."""

    name: str
    kv_blocks: int
    kv_block_tokens: int
    kv_bytes: int
    dtype: str
    kind: Literal["opened"] = "opened"


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """Times in seconds. ``prefill_seconds``: from the first step until every sequence of the batch
    has its first token. ``peak_bytes``: peak resident memory since the model was warm.
    """

    name: str
    prefill_seconds: float
    decode_seconds: tuple[float, ...]
    peak_bytes: int
    kind: Literal["sample"] = "sample"


@dataclass(frozen=True, kw_only=True, slots=True)
class Closed:
    """A model is gone."""

    name: str
    kind: Literal["closed"] = "closed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Failed:
    """A model could not be built or run; details are in the log."""

    name: str
    message: str
    kind: Literal["failed"] = "failed"


Command = Open | Measure | Close
Answer = Ready | Opened | Sample | Closed | Failed

_COMMANDS: TypeAdapter[Command] = TypeAdapter(Annotated[Command, Field(discriminator="kind")])
_ANSWERS: TypeAdapter[Answer] = TypeAdapter(Annotated[Answer, Field(discriminator="kind")])


def write(message: Command | Answer) -> bytes:
    """One line."""
    return TypeAdapter(type(message)).dump_json(message) + b"\n"


def read_command(line: bytes) -> Command:
    """What ``write`` wrote; ``pydantic.ValidationError`` for anything else."""
    return _COMMANDS.validate_json(line)


def read_answer(line: bytes) -> Answer:
    """What ``write`` wrote; ``pydantic.ValidationError`` for anything else."""
    return _ANSWERS.validate_json(line)
