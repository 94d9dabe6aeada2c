"""Kubernetes' structural schemas from pydantic models: no references, no null, everything typed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import BaseModel, JsonValue
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import CoreSchema

Schema = dict[str, JsonValue]

Found = TypeVar("Found")

#: What a structural schema takes over as it is.
_KEPT = (
    "description",
    "type",
    "format",
    "enum",
    "pattern",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "maxItems",
    "maxProperties",
)


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A rule in the Common Expression Language, and what to say when it does not hold.

    ``field`` is the field to blame, as a path from ``self``; the object itself without one.
    """

    expression: str
    message: str
    field: str = ""

    def to_json(self) -> Schema:
        """As ``x-kubernetes-validations`` holds it."""
        value: Schema = {"rule": self.expression, "message": self.message}
        return {**value, "fieldPath": f".{self.field}"} if self.field else value


@dataclass(frozen=True, kw_only=True)
class Additions:
    """What a cluster needs beyond the fields of a model, by model.

    ``list_keys`` names the fields that are lists with a key, and the fields that make the key.
    """

    rules: Mapping[type[BaseModel], tuple[Rule, ...]] = field(default_factory=dict)
    required: Mapping[type[BaseModel], tuple[str, ...]] = field(default_factory=dict)
    list_keys: Mapping[type[BaseModel], Mapping[str, tuple[str, ...]]] = field(default_factory=dict)


def structural_schema(model: type[BaseModel], additions: Additions) -> Schema:
    """The structural schema of a model, with defaults, rules and list keys."""
    schema = model.model_json_schema(by_alias=True, schema_generator=_Untitled)
    return _Writer(definitions=schema.pop("$defs", {}), additions=additions).schema(schema)


class _Untitled(GenerateJsonSchema):
    """Titles for models only: by these the additions are found."""

    def field_title_should_be_set(self, schema: CoreSchema) -> bool:
        """Never."""
        del schema
        return False


@dataclass(frozen=True, kw_only=True)
class _Writer:
    definitions: Mapping[str, Schema]
    additions: Additions

    def schema(self, given: Schema) -> Schema:
        """The structural form of one JSON Schema."""
        given = self._resolved(given)
        if "const" in given:
            given["enum"] = [given["const"]]
        if isinstance(last := given.get("exclusiveMaximum"), int):
            given["maximum"] = last - 1
        written: Schema = {key: given[key] for key in _KEPT if key in given}
        if given.get("default") not in (None, [], {}):
            written["default"] = given["default"]
        if "anyOf" in given:
            written |= _int_or_string(given["anyOf"])
        if given.get("type") == "integer":
            written["format"] = "int64"
        if given.get("type") == "array":
            written["items"] = self.schema(_object(given["items"]))
        if given.get("type") == "object":
            written |= self._object(given) if "properties" in given else self._map(given)
        return written

    def _resolved(self, given: Schema) -> Schema:
        """Without references and alternatives of null; what stands beside them is kept."""
        while True:
            beside = dict(given)
            if "$ref" in beside:
                name = str(beside.pop("$ref")).removeprefix("#/$defs/")
                given = {**self.definitions[name], **beside}
                continue
            choices = beside.pop("anyOf", None)
            if isinstance(choices, list) and {"type": "null"} in choices:
                others = [choice for choice in choices if choice != {"type": "null"}]
                one = _object(others[0]) if len(others) == 1 else {"anyOf": others}
                given = {**one, **beside}
                continue
            return dict(given)

    def _object(self, given: Schema) -> Schema:
        required = given.get("required", [])
        assert isinstance(required, list)
        properties: Schema = {}
        for name, value in _object(given["properties"]).items():
            inner = self.schema(_object(value))
            if name not in required and "$ref" in _object(value) and (filled := _defaults(inner)):
                # Written out, because the API server checks rules on a default as it stands.
                inner["default"] = filled
            properties[name] = inner
        written: Schema = {"properties": properties}
        model = str(given["title"])
        for name, keys in _of(self.additions.list_keys, model, {}).items():
            _object(properties[name]).update(
                {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}
            )
        if needed := [*required, *_of(self.additions.required, model, ())]:
            written["required"] = needed
        if rules := _of(self.additions.rules, model, ()):
            written["x-kubernetes-validations"] = [rule.to_json() for rule in rules]
        return written

    def _map(self, given: Schema) -> Schema:
        if "patternProperties" not in given:
            return {"additionalProperties": self.schema(_object(given["additionalProperties"]))}
        ((pattern, value),) = _object(given["patternProperties"]).items()
        quoted = pattern.replace("\\", "\\\\").replace("'", "\\'")
        rule = Rule(
            expression=f"self.all(key, key.matches('{quoted}'))",
            message=f"give as keys: {_object(given['propertyNames'])['description']}",
        )
        return {
            "additionalProperties": self.schema(_object(value)),
            "x-kubernetes-validations": [rule.to_json()],
        }


def _int_or_string(choices: JsonValue) -> Schema:
    """An integer or a string: the one alternative that a structural schema knows."""
    assert isinstance(choices, list)
    written: Schema = {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": True,
    }
    for choice in map(_object, choices):
        written |= {key: value for key, value in choice.items() if key in _KEPT and key != "type"}
    return written


def _of(table: Mapping[type[BaseModel], Found], name: str, default: Found) -> Found:
    return next((found for model, found in table.items() if model.__name__ == name), default)


def _defaults(schema: Schema) -> Schema:
    properties = _object(schema.get("properties", {}))
    values = {name: _object(inner).get("default") for name, inner in properties.items()}
    return {name: value for name, value in values.items() if value is not None}


def _object(value: JsonValue) -> Schema:
    assert isinstance(value, dict)
    return value
