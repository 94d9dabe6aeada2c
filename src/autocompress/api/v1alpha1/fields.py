"""What fields of a job are made of: their types, and how a fault in one tells its remedy."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    StringConstraints,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

Value = TypeVar("Value")

#: Fault types: a value that does not fit its field, and a rule between fields.
REMEDY, RULE = "remedy", "rule"


class Spec(BaseModel):
    """A part of a job: camelCase names, nothing unknown, nothing converted in silence."""

    model_config = ConfigDict(
        alias_generator=to_camel, extra="forbid", frozen=True, strict=True, serialize_by_alias=True
    )


@dataclass(frozen=True)
class Give:
    """Metadata of a field with one value (no list): what to give instead of one that is refused."""

    remedy: str

    def __get_pydantic_core_schema__(
        self, source: type[object], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Wrap the field's own validation."""
        return core_schema.no_info_wrap_validator_function(self._validate, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Tell editors the remedy too."""
        return {"description": self.remedy, **handler(schema)}

    def _validate(self, value: Value, inner: ValidatorFunctionWrapHandler) -> Value:
        try:
            checked: Value = inner(value)
        except ValidationError as error:
            if any(fault["type"] == RULE for fault in error.errors()):
                raise
            raise PydanticCustomError(REMEDY, "{give}", {"give": self.remedy}) from None
        return checked


def refuse(faults: Mapping[str, str]) -> None:
    """Fail with one message for each field (of the model that is being validated) in ``faults``.

    A key is a path such as ``latency.2.metric``; the empty one is the model itself.

    Raises:
        ValidationError: when there are any; pydantic adds it to the others.
    """
    if faults:
        raise ValidationError.from_exception_data(
            "rules",
            [
                InitErrorDetails(
                    type=PydanticCustomError(RULE, "{text}", {"text": text}),
                    loc=tuple(
                        int(part) if part.isdigit() else part for part in name.split(".") if part
                    ),
                    input=None,
                )
                for name, text in faults.items()
            ],
        )


#: A Kubernetes quantity; groups: number, suffix, exponent.
QUANTITY = r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:([KMGTPE]i|[mkMGTPE])|[eE]([+-]?[0-9]{1,2}))?"
QUANTITY_CHARACTERS = 32
_SCALES = {
    "m": Fraction(1, 1000),
    **{suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Fraction(1024**power) for power, suffix in enumerate("KMGTPE", 1)},
}
_MAX_BYTES = (1 << 63) - 1
#: From here on a part of a byte is not noticed, because the cluster's rule works with doubles.
ROUNDED_BYTES = 1 << 40


def parse_quantity(text: str | int) -> int:
    """Bytes of a Kubernetes quantity (``24Gi``, ``1.5G``, ``12e9``, ``1024``), exactly.

    From 2^40 on, and within a thousandth of a whole number, it is rounded.

    Raises:
        ValueError: not a quantity, not a whole number of bytes, less than 1 or above 2^63 - 1.
    """
    # A YAML number without a suffix arrives as an integer; a boolean is one too, for Python.
    known = isinstance(text, str | int) and not isinstance(text, bool)
    known = known and len(str(text)) <= QUANTITY_CHARACTERS
    found = re.fullmatch(QUANTITY, str(text), re.ASCII) if known else None
    if found is None:
        raise ValueError(f"{text!r} is not a quantity")
    number, suffix, exponent = found.groups()
    scale = Fraction(10) ** int(exponent or 0) * (_SCALES[suffix] if suffix else 1)
    size_bytes = Fraction(Decimal(number)) * scale
    whole_bytes = round(size_bytes)
    is_whole = size_bytes >= ROUNDED_BYTES or abs(size_bytes - whole_bytes) < Fraction(1, 1000)
    if not is_whole or not 1 <= size_bytes <= _MAX_BYTES:
        raise ValueError(f"{text!r} is not a whole number of bytes from 1 to 2^63 - 1")
    return whole_bytes


def _positive_rate(text: str) -> str:
    if not 0 < float(text) <= 1:
        raise ValueError("not above 0 and at most 1")
    return text


Memory = Annotated[
    int,
    BeforeValidator(parse_quantity),
    Give("an amount of memory such as 24Gi, 500Mi or 1.5G"),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 1},
                {
                    "type": "string",
                    "maxLength": QUANTITY_CHARACTERS,
                    "pattern": f"^(?:{QUANTITY})$",
                },
            ],
            "x-kubernetes-int-or-string": True,
        }
    ),
]
"""Bytes; written as a Kubernetes quantity."""

Rate = Annotated[
    str,
    StringConstraints(max_length=24, pattern=r"^(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]{1,2})?$"),
    AfterValidator(_positive_rate),
    Give('a decimal number above 0 and at most 1, in quotes, such as "3e-4" or "0.01"'),
]
"""A learning rate as a decimal string, because floats are written differently by every tool."""


Milliseconds = Annotated[
    int,
    Field(ge=1, le=3_600_000),
    Give("a whole number of milliseconds, for example 25"),
]
Tokens = Annotated[int, Field(ge=1, le=1 << 24), Give("a whole number of tokens, for example 1024")]
ManyTokens = Annotated[
    int, Field(ge=1, le=1 << 50), Give("a whole number of tokens, for example 2000000")
]
Steps = Annotated[int, Field(ge=1, le=10_000_000), Give("a whole number of steps, at least 1")]
Count = Annotated[int, Field(ge=1, le=65_536), Give("a whole number from 1 to 65536")]
Seed = Annotated[int, Field(ge=0, lt=1 << 32), Give("a whole number from 0 to 4294967295")]
Size = Annotated[int, Field(ge=1, le=1 << 24), Give("a whole number, at least 1")]
Sizes = Annotated[tuple[Size, ...], Field(max_length=64)]
Percent = Annotated[int, Field(ge=0, le=100), Give("a whole number of percent from 0 to 100")]
PercentOfParent = Annotated[
    int,
    Field(ge=1, le=10_000),
    Give("a whole number of percent of what the parent measures, for example 75"),
]
Seconds = Annotated[
    int, Field(ge=1, le=31_536_000), Give("a whole number of seconds, for example 3600")
]
SecondsOrZero = Annotated[
    int, Field(ge=0, le=315_360_000), Give("a whole number of seconds, 0 or more")
]
Text = Annotated[
    str, StringConstraints(min_length=1, max_length=1024), Give("a text of 1 to 1024 characters")
]
DnsName = Annotated[
    str,
    StringConstraints(max_length=253, pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"),
    Give("a Kubernetes name: lower-case letters, digits, - and ., at most 253 characters"),
]
