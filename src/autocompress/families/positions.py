"""Rotary position parameters: the old and the new way to write them, in one form."""

from __future__ import annotations

from autocompress.contract.errors import DataError
from autocompress.families import fields
from autocompress.families.fields import Config
from autocompress.families.traits import RopeValue

#: Types whose frequencies do not depend on the length of a request; engines agree on these.
SUPPORTED = ("default", "linear", "llama3", "yarn")
DEFAULT_THETA = 10000.0


def read_rope(config: Config) -> tuple[tuple[str, RopeValue], ...]:
    """``rope_parameters`` (transformers 5), or ``rope_theta`` with ``rope_scaling`` (before).

    Raises:
        DataError: for a type whose frequencies change with length, or a partial rotation.
    """
    given = (
        fields.mapping(config, "rope_parameters") or fields.mapping(config, "rope_scaling") or {}
    )
    values = dict(given)
    kind = values.pop("type", None)
    values.setdefault("rope_type", kind if kind is not None else "default")
    theta = fields.number(config, "rope_theta", default=DEFAULT_THETA)
    values["rope_theta"] = fields.number(values, "rope_theta", default=theta)
    if values["rope_type"] not in SUPPORTED:
        raise DataError(
            f"config.json: rope_type={values['rope_type']!r} is not supported; "
            f"known are {', '.join(SUPPORTED)}"
        )
    share = fields.number(config, "partial_rotary_factor", default=1.0)
    share = fields.number(values, "partial_rotary_factor", default=share)
    if share != 1:
        raise DataError(
            f"config.json: partial_rotary_factor={share} is not supported; only 1 (all channels) is"
        )
    values.pop("partial_rotary_factor", None)
    return tuple(sorted((name, _value(name, value)) for name, value in values.items()))


def _value(name: str, value: object) -> RopeValue:
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple) and all(isinstance(item, int | float) for item in value):
        return tuple(float(item) for item in value)
    raise DataError(f"config.json: rope parameter {name}={value!r} must be a number, text or list")
