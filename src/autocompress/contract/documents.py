"""JSON of frozen dataclasses: written in one form, read strictly (an unknown field is an error)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import TypeVar, cast

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from autocompress.contract.errors import DataError

Value = TypeVar("Value")
_Path = tuple[int | str, ...]

_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


def _make_adapter(kind: type[object]) -> TypeAdapter[tuple[object]]:
    # A standard dataclass takes its configuration from what contains it, at every level; hence
    # the tuple around it.
    wrapped = cast(type[tuple[object]], tuple.__class_getitem__(kind))
    return TypeAdapter(wrapped, config=_STRICT)


_adapter = cast(Callable[[type[object]], TypeAdapter[tuple[object]]], lru_cache(_make_adapter))


def dump(value: object) -> bytes:
    """UTF-8 JSON with sorted keys and a final newline; equal values give equal bytes.

    Raises:
        ValueError: a number is not finite.
    """
    (plain,) = _adapter(type(value)).dump_python((value,), mode="json", warnings="error")
    text = json.dumps(plain, indent=1, sort_keys=True, allow_nan=False, ensure_ascii=False)
    return text.encode() + b"\n"


def dump_line(value: object) -> bytes:
    """The same on one line, without the fields that are at their defaults: short, and read back
    by ``load``.

    Raises:
        ValueError: a number is not finite.
    """
    (plain,) = _adapter(type(value)).dump_python(
        (value,), mode="json", warnings="error", exclude_defaults=True
    )
    text = json.dumps(plain, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return text.encode()


def load(kind: type[Value], data: bytes, *, name: str) -> Value:
    """Read what ``dump`` wrote.

    Raises:
        DataError: naming the document and every field that does not fit.
    """
    try:
        (value,) = _adapter(kind).validate_json(b"[" + data.strip() + b"]")
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, path)) or 'document'}: {message}"
            for path, message in _without_other_kinds(error.errors())
        )
        raise DataError(f"{name} is not a valid {kind.__name__}: {faults}") from error
    return cast(Value, value)


def _without_other_kinds(faults: Sequence[ErrorDetails]) -> Iterator[tuple[_Path, str]]:
    """Paths and messages, without those about members of a union that were not meant.

    A fault inside a union stands below the name of each member; a member whose ``kind`` does not
    fit was not meant. Where none fits, the kind itself is the fault.
    """
    other = {
        _path(f)[:-1] for f in faults if f["type"] == "literal_error" and f["loc"][-1] == "kind"
    }
    unions = {path[:-1] for path in other}
    meant = {
        path[: len(union)]
        for path in map(_path, faults)
        for union in unions
        if path[: len(union)] == union and path[: len(union) + 1] not in other
    }
    told = set()
    for fault in faults:
        path = _path(fault)
        union = next((u for u in unions if path[: len(u)] == u), None)
        if union is None:
            yield path, fault["msg"]
        elif path[: len(union) + 1] not in other:
            yield union + path[len(union) + 1 :], fault["msg"]
        elif union not in meant and union not in told:
            told.add(union)
            kinds = [
                f["ctx"]["expected"]
                for f in faults
                if _path(f)[:-2] == union and f["type"] == "literal_error"
            ]
            yield (*union, "kind"), f"Input should be {' or '.join(kinds)}"


def _path(fault: ErrorDetails) -> _Path:
    return fault["loc"][1:]  # without the place in the tuple
