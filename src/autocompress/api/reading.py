"""Read a job file: YAML or JSON in, a ``CompressionJob`` or every fault at once out."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Union, get_args, get_origin
from urllib.parse import quote, unquote

from pydantic import BaseModel, JsonValue, ValidationError
from pydantic_core import ErrorDetails

from autocompress.api.v1alpha1 import CompressionJob
from autocompress.api.v1alpha1.fields import REMEDY, RULE, Give
from autocompress.api.yaml_text import parse_yaml
from autocompress.contract.errors import SpecError

Location = tuple[int | str, ...]

MAX_CHARACTERS = 1 << 18
#: Fields that name a place, where a relative path is one relative to the job file.
_PLACES: tuple[Location, ...] = (
    ("spec", "source", "uri"),
    ("spec", "text", "uri"),
    ("spec", "artifacts", "uri"),
    ("spec", "target", "workload", "requestSet", "uri"),
)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def read_job_file(path: Path) -> CompressionJob:
    """Read and check the job in a file.

    Raises:
        SpecError: the file cannot be read, or as ``read_job``.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise SpecError(f"{path}: cannot be read: {reason}; give the path of a job file") from error
    return read_job(text, name=str(path))


def read_job(text: str, *, name: str) -> CompressionJob:
    """Read and check a job; ``name`` is the file it came from.

    Relative paths and relative ``file:`` URIs in the job are resolved against the folder of
    ``name``.

    Raises:
        SpecError: every fault, a line each: field, what was given, what to give.
    """
    if len(text) > MAX_CHARACTERS:
        raise SpecError(f"{name}: {len(text):,} characters; a job file has at most 262,144")
    value = parse_yaml(text, name=name)
    if not isinstance(value, dict):
        raise SpecError(
            f"{name}: {'is empty' if value is None else 'is not an object'}; a job file begins "
            "with apiVersion: autocompress.dev/v1alpha1 and kind: CompressionJob"
        )
    folder = Path(name).absolute().parent
    for place in _PLACES:
        _resolve(value, place, folder)
    return check_job(value, name=name)


def check_job(value: JsonValue, *, name: str) -> CompressionJob:
    """Check a job that is there as JSON values, for example as the API server gave it.

    Raises:
        SpecError: as ``read_job``.
    """
    try:
        return CompressionJob.model_validate_json(json.dumps(value))
    except ValidationError as error:
        lines = list(_lines(error.errors()))
        raise SpecError("\n".join([f"{name} is not a valid job:", *lines])) from error


def _resolve(value: JsonValue, place: Location, folder: Path) -> None:
    for part in place[:-1]:
        value = value.get(str(part)) if isinstance(value, dict) else None
    uri = value.get("uri") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(uri, str) or not uri.strip():
        return
    scheme = _SCHEME.match(uri)
    if scheme is None:
        path = Path(uri).expanduser()
    elif uri.startswith("file:") and not uri.startswith("file:/"):
        path = Path(unquote(uri.removeprefix("file:")))
    else:
        return
    value["uri"] = "file://" + quote(str((folder / path).resolve()))


def _lines(faults: list[ErrorDetails]) -> Iterator[str]:
    for fault in faults:
        location = fault["loc"]
        yield f"{_written(location)}: {_told(fault, location)}"


def _told(fault: ErrorDetails, location: Location) -> str:
    kind, value = fault["type"], fault["input"]
    if kind == RULE:
        return fault["msg"]
    if kind == "missing":
        return f"is missing; give {_wanted(location)}"
    if kind == "extra_forbidden":
        return _unknown(location)
    if kind == "too_long":
        return "has {actual_length} entries; give at most {max_length}".format(**fault["ctx"])
    remedy = fault["msg"] if kind == REMEDY else _wanted(location)
    guess = _near(value, _choices(location))
    return f"got {_shown(value)}; " + (f"did you mean {guess}?" if guess else f"give {remedy}")


def _written(location: Location) -> str:
    text = ""
    for part in location:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part != "[key]":
            text += f".{part}" if text else part
    return text or "the job"


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _unknown(location: Location) -> str:
    known = list(_fields(_model(_annotation(location[:-1]))))
    guess = _near(location[-1], known)
    return "unknown field; " + (f"did you mean {guess}?" if guess else f"known: {', '.join(known)}")


def _near(value: object, known: list[str]) -> str | None:
    """The one of ``known`` that ``value`` was perhaps meant to be, letter case and _ aside."""
    if not isinstance(value, str):
        return None
    folded = {name.lower(): name for name in known}
    near = difflib.get_close_matches(value.replace("_", "").lower(), folded, n=1, cutoff=0.7)
    return folded[near[0]] if near else None


def _wanted(location: Location) -> str:
    """What fits at a place, in words."""
    annotation = _annotation(location)
    for part in _parts(annotation):
        for note in get_args(part)[1:] if get_origin(part) is Annotated else ():
            if isinstance(note, Give):
                return note.remedy
    if choices := _choices(location):
        return f"one of {', '.join(choices)}" if len(choices) > 1 else choices[0]
    if (model := _model(annotation)) and not _is_list(annotation):
        return f"an object with {', '.join(_fields(model))}"
    if _is_list(annotation):
        return "a list"
    return "true or false" if bool in _parts(annotation) else "an object with text values"


def _choices(location: Location) -> list[str]:
    enums = [part for part in _parts(_annotation(location)) if isinstance(part, type)]
    return [str(member) for part in enums for member in getattr(part, "__members__", {}).values()]


def _annotation(location: Location) -> object:
    """The annotation of the field at a place of a job; ``None`` where there is none."""
    annotation: object = CompressionJob
    for part in location:
        if isinstance(part, int):
            annotation = next((p for p in map(_item, _parts(annotation)) if p is not None), None)
        else:
            annotation = _fields(_model(annotation)).get(part)
    return annotation


def _item(annotation: object) -> object:
    return get_args(annotation)[0] if get_origin(annotation) is tuple else None


def _is_list(annotation: object) -> bool:
    return any(get_origin(part) is tuple for part in _parts(annotation))


def _parts(annotation: object) -> list[object]:
    """An annotation and what it is an alternative or annotated form of."""
    found: list[object] = [annotation]
    origin, arguments = get_origin(annotation), get_args(annotation)
    inner: tuple[object, ...] = ()
    if origin is Annotated:
        inner = arguments[:1]
    elif origin in (Union, UnionType):
        inner = arguments
    for part in inner:
        found += _parts(part)
    return found


def _model(annotation: object) -> type[BaseModel] | None:
    for part in _parts(annotation):
        if isinstance(part, type) and issubclass(part, BaseModel):
            return part
    return None


def _fields(model: type[BaseModel] | None) -> Mapping[str, object]:
    """Annotations by the name that users write."""
    if model is None:
        return {}
    return {
        field.alias or name: Annotated[field.annotation, *field.metadata]
        if field.metadata
        else field.annotation
        for name, field in model.model_fields.items()
    }
