"""Writes what the chart repeats of other files: table of values, CRD, Argo CD customisation.

`python charts/generate.py` writes the files, `--check` only says which are not up to date.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

CHART = Path(__file__).parent / "autocompress"
CRD = Path(__file__).parents[1] / "crds" / "autocompress.dev_compressionjobs.yaml"
CUSTOMISED = "autocompress.dev_CompressionJob"
ACTIONS = ("suspend", "resume", "retry")

TABLE = """## Values

| value | default | what it does |
|---|---|---|
"""


class UndocumentedError(Exception):
    """A value of the chart has no comment that says what it does."""


@dataclass(frozen=True, kw_only=True)
class Value:
    """One value of the chart: its path, default and purpose."""

    path: str
    default: str
    purpose: str


def documented_values(text: str) -> list[Value]:
    """The values of a values.yaml in its order, each with the `# --` comment above it.

    Raises:
        UndocumentedError: values without such a comment.
    """
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode), "values.yaml is a mapping"
    lines = text.splitlines()
    values = list(_values(root, "", lines))
    missing = [value.path for value in values if not value.purpose]
    if missing:
        raise UndocumentedError(f"no `# --` comment above {', '.join(missing)}: say what it does")
    return values


def _values(node: yaml.MappingNode, prefix: str, lines: list[str]) -> Iterator[Value]:
    for key, inner in node.value:
        path = f"{prefix}{key.value}"
        purpose = _comment_above(lines, key.start_mark.line)
        if isinstance(inner, yaml.MappingNode) and inner.value and not purpose:
            yield from _values(inner, f"{path}.", lines)
        else:
            default = json.dumps(yaml.safe_load(yaml.serialize(inner)), ensure_ascii=False)
            yield Value(path=path, default=default, purpose=purpose)


def _comment_above(lines: list[str], line: int) -> str:
    words: list[str] = []
    for above in reversed(lines[:line]):
        comment = above.strip()
        if not comment.startswith("#"):
            return ""
        words.insert(0, comment.lstrip("#").strip())
        if comment.startswith("# -- "):
            return " ".join(words).removeprefix("-- ")
    return ""


def readme(text: str, values: list[Value]) -> str:
    """The chart's README with its table of values written anew."""
    written_by_hand = text.partition(TABLE.splitlines()[0])[0]
    rows = [f"| `{value.path}` | `{value.default}` | {value.purpose} |" for value in values]
    return written_by_hand + TABLE + "\n".join(rows) + "\n"


def argocd_customisation(folder: Path) -> str:
    """A patch for the ConfigMap argocd-cm with the scripts of the chart's `argocd` folder."""
    scripts = {name: _script(folder / "actions" / name / "action.lua") for name in ACTIONS}
    actions = {
        "discovery.lua": _script(folder / "actions" / "discovery.lua"),
        "definitions": [{"name": name, "action.lua": text} for name, text in scripts.items()],
    }
    health = _script(folder / "health.lua")
    patch = {
        "data": {
            f"resource.customizations.health.{CUSTOMISED}": _Block(health),
            f"resource.customizations.actions.{CUSTOMISED}": _Block(_dump(actions)),
        }
    }
    return f"# Generated from the scripts beside it by charts/generate.py.\n{_dump(patch)}"


class _Block(str):
    """Text that YAML writes as a block, lines as they are."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    pass


_Dumper.add_representer(
    _Block, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|")
)


def _script(path: Path) -> _Block:
    return _Block(path.read_text(encoding="utf-8"))


def _dump(value: object) -> str:
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=200)
    return text


def generated_files() -> dict[Path, str]:
    """Every generated file with what it should hold."""
    values = documented_values((CHART / "values.yaml").read_text(encoding="utf-8"))
    readme_file = CHART / "README.md"
    return {
        readme_file: readme(readme_file.read_text(encoding="utf-8"), values),
        CHART / "files" / "compressionjobs.yaml": CRD.read_text(encoding="utf-8"),
        CHART / "argocd" / "argocd-cm.yaml": argocd_customisation(CHART / "argocd"),
    }


def stale_files() -> list[Path]:
    """Generated files that are missing or hold something else."""
    return [
        path
        for path, text in generated_files().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]


def main() -> int:
    """Writes the files, or says which are stale."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where stale")
    check: bool = parser.parse_args().check
    stale = stale_files()
    if check:
        for path in stale:
            sys.stderr.write(f"{path} is not up to date: run python charts/generate.py\n")
        return 1 if stale else 0
    texts = generated_files()
    for path in stale:
        path.write_text(texts[path], encoding="utf-8")
        sys.stdout.write(f"wrote {path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
