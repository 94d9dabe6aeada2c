"""Digests of values: a canonical encoding that refuses types it does not know.

A dataclass is encoded as its class name and the fields that differ from their defaults, so that a
new field at its default changes no digest.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Mapping
from enum import Enum


def digest(value: object) -> str:
    """``sha256:`` and 64 hexadecimal digits."""
    return "sha256:" + hashlib.sha256(canonical(value).encode()).hexdigest()


def digest_bytes(data: bytes) -> str:
    """The digest of raw bytes."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def canonical(value: object) -> str:  # noqa: PLR0911  # one return for each type
    """One text for one value.

    Raises:
        TypeError: for a type that has no canonical form here.
    """
    match value:
        case None | bool():
            return repr(value)
        case Enum():
            return f"{type(value).__name__}.{value.name}"
        case int():
            return str(value)
        case float():
            if not math.isfinite(value):
                raise TypeError(f"{value} has no canonical form")
            return value.hex()
        case str():
            return f"{len(value)}:{value}"
        case tuple() | list():
            return "[" + ",".join(canonical(item) for item in value) + "]"
        case Mapping():
            if not all(isinstance(key, str) for key in value):
                raise TypeError("only mappings with text keys have a canonical form")
            inner = ",".join(f"{canonical(key)}={canonical(value[key])}" for key in sorted(value))
            return "{" + inner + "}"
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return type(value).__name__ + canonical(_changed_fields(value))
        case _:
            raise TypeError(
                f"{type(value).__name__} has no canonical form; use plain values or a dataclass"
            )


def _changed_fields(value: object) -> dict[str, object]:
    changed: dict[str, object] = {}
    for field in dataclasses.fields(value):  # type: ignore[arg-type]  # checked by the caller
        here = getattr(value, field.name)
        if field.default is not dataclasses.MISSING:
            default: object = field.default
        elif field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        else:
            default = dataclasses.MISSING
        if default is dataclasses.MISSING or here != default:
            changed[field.name] = here
    return changed
