"""JSON of frozen dataclasses: written in one form, read strictly (an unknown field is an error)."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from autocompress.contract.errors import DataError

Value = TypeVar("Value")


@lru_cache
def _adapter(kind: type[Value]) -> TypeAdapter[Value]:
    return TypeAdapter(kind, config=None if _has_config(kind) else ConfigDict(extra="forbid"))


def _has_config(kind: type[object]) -> bool:
    # pydantic refuses a config for dataclasses and models, which carry their own.
    return hasattr(kind, "__dataclass_fields__") or hasattr(kind, "model_config")


def dump(value: object) -> bytes:
    """UTF-8 JSON with sorted keys and a final newline; equal values give equal bytes."""
    plain = _adapter(type(value)).dump_python(value, mode="json")
    text = json.dumps(plain, indent=1, sort_keys=True, allow_nan=False, ensure_ascii=False)
    return text.encode() + b"\n"


def load(kind: type[Value], data: bytes, *, name: str) -> Value:
    """Read what ``dump`` wrote.

    Raises:
        DataError: naming the document and every field that does not fit.
    """
    try:
        return _adapter(kind).validate_json(data)
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc'])) or 'document'}: {fault['msg']}"
            for fault in error.errors()
        )
        raise DataError(f"{name} is not a valid {kind.__name__}: {faults}") from error
