"""Typed reading of a ``config.json``; a wrong field is an error that names it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from autocompress.contract.errors import DataError

Config = Mapping[str, object]


def integer(config: Config, name: str, *, default: int | None = None) -> int:
    """A positive whole number; ``null`` counts as absent.

    Raises:
        DataError: when it is absent without a default, or is something else.
    """
    value = config.get(name)
    if value is None:
        value = default
    if value is None:
        raise DataError(
            f"config.json: {name} is missing; add it as the model's authors published it"
        )
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise DataError(f"config.json: {name}={value!r} must be a whole number of at least 1")
    return value


def number(config: Config, name: str, *, default: float) -> float:
    """A positive number; ``null`` counts as absent.

    Raises:
        DataError: when it is something else.
    """
    value = config.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise DataError(f"config.json: {name}={value!r} must be a positive number")
    return float(value)


def flag(config: Config, name: str, *, default: bool = False) -> bool:
    """A truth value; ``null`` counts as absent.

    Raises:
        DataError: when it is something else.
    """
    value = config.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise DataError(f"config.json: {name}={value!r} must be true or false")
    return value


def text(config: Config, name: str, *, default: str) -> str:
    """A text; ``null`` counts as absent.

    Raises:
        DataError: when it is something else.
    """
    value = config.get(name)
    if value is None:
        return default
    if not isinstance(value, str):
        raise DataError(f"config.json: {name}={value!r} must be a text")
    return value


def mapping(config: Config, name: str) -> Config | None:
    """An inner mapping, or ``None``.

    Raises:
        DataError: when it is something else.
    """
    value = config.get(name)
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise DataError(f"config.json: {name} must be a mapping")
    return cast(Config, value)


def sequence(config: Config, name: str) -> list[object] | None:
    """An inner list, or ``None``.

    Raises:
        DataError: when it is something else.
    """
    value = config.get(name)
    if value is None:
        return None
    if not isinstance(value, list):
        raise DataError(f"config.json: {name} must be a list")
    return value


def token_ids(config: Config, name: str) -> tuple[int, ...]:
    """One token id, a list of them, or none.

    Raises:
        DataError: when it is something else.
    """
    value = config.get(name)
    values = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(item, int) and not isinstance(item, bool) for item in values):
        raise DataError(f"config.json: {name}={value!r} must be a token id or a list of them")
    return tuple(values)
