"""YAML as a job file may use it: JSON's types, one document, no repeated keys, no aliases."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import ClassVar

import yaml
from pydantic import JsonValue
from yaml.nodes import MappingNode

from autocompress.contract.errors import SpecError


class _Loader(yaml.SafeLoader):
    """YAML 1.2's rules for plain words: ``no`` and ``12:30`` are text, dates too."""

    # Its own, so that the safe loader of other code stays as it is.
    yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, re.Pattern[str]]]]] = {}  # type: ignore[misc]

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Refuse aliases: a few lines of them can stand for gigabytes."""
        if self.check_event(yaml.AliasEvent):
            raise yaml.MarkedYAMLError(
                problem="aliases (*name) are not supported; write the value out",
                problem_mark=self.get_mark(),
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Hashable, JsonValue]:
        """Refuse keys that repeat or are not text."""
        values: dict[Hashable, JsonValue] = {}
        for key_node, value_node in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise yaml.MarkedYAMLError(
                    problem=f"the key {key!r} is not text; put it in quotes",
                    problem_mark=key_node.start_mark,
                )
            if key in values:
                raise yaml.MarkedYAMLError(
                    problem=f"the key {key!r} is here for the second time; keep one of them",
                    problem_mark=key_node.start_mark,
                )
            values[key] = self.construct_object(value_node, deep=deep)
        return values


for _tag, _pattern, _first in (
    ("tag:yaml.org,2002:null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("tag:yaml.org,2002:bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("tag:yaml.org,2002:int", r"[-+]?(0|[1-9][0-9]{0,30})", list("-+0123456789")),
    (
        "tag:yaml.org,2002:float",
        r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        list("-+0123456789."),
    ),
):
    _Loader.add_implicit_resolver(_tag, re.compile(f"^(?:{_pattern})$"), _first)


def parse_yaml(text: str, *, name: str) -> JsonValue:
    """The one document of ``text``.

    Raises:
        SpecError: naming file, line and column.
    """
    try:
        # The loader is a SafeLoader: plain values only.
        loader = _Loader(text)
        try:
            value: JsonValue = loader.get_single_data()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        if error.context == "expected a single document in the stream":
            raise SpecError(
                f"{place}: a second document begins here; a job file holds one CompressionJob"
            ) from error
        raise SpecError(f"{place}: not valid YAML: {error.problem or error.context}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SpecError(f"{name}: not valid YAML: {error or 'nested too deeply'}") from error
    return value
