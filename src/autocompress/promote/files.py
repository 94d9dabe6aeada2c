"""Manifests as files in a working tree: the same input gives the same bytes, written whole."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import yaml

from autocompress.contract.digest import digest_bytes
from autocompress.contract.errors import DataError
from autocompress.promote.pod import Json

_MARK = "# Written by `autocompress promote`"
_CONTENT = re.compile(r"\A(# .*\n)*?# Content: (sha256:[0-9a-f]{64})\n")


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """One file; ``changed`` says whether it holds something else now."""

    path: Path
    changed: bool


class _Dumper(yaml.SafeDumper):
    """Every value is written out: readers of manifests need not know aliases."""

    def ignore_aliases(self, data: object) -> bool:
        """Always."""
        del data
        return True


def render(documents: tuple[Json, ...], *, job: str, notes: tuple[str, ...] = ()) -> str:
    """The text of one file; ``job`` is the one that it comes from (NAMESPACE/NAME)."""
    body = yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, width=1000, allow_unicode=True)
    header = [
        f"{_MARK} from compressionjob {job}; the next promotion replaces it.",
        *(f"# {note}" for note in notes),
        f"# Content: {digest_bytes(body.encode())}",
    ]
    return "\n".join(header) + "\n" + body


def foreign(texts: Mapping[Path, str]) -> tuple[Path, ...]:
    """Those of the files that are there and are not as a promotion left them."""
    return tuple(path for path in texts if path.exists() and not _is_ours(path))


def write(texts: Mapping[Path, str]) -> tuple[Written, ...]:
    """Write all files, each by renaming a complete one into place.

    Raises:
        DataError: a folder or file cannot be written; none was changed.
    """
    changed = {path: text for path, text in texts.items() if not _holds(path, text)}
    try:
        with ExitStack() as stack:
            complete = {path: _beside(stack, path, text) for path, text in changed.items()}
            for path, partial in complete.items():
                partial.replace(path)
    except OSError as error:
        raise DataError(f"{error.filename}: cannot be written: {error.strerror}") from error
    return tuple(Written(path=path, changed=path in changed) for path in texts)


def _beside(stack: ExitStack, path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    partial = Path(name)
    stack.callback(partial.unlink, missing_ok=True)
    with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123  # from a descriptor
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.chmod(0o644)
    return partial


def _holds(path: Path, text: str) -> bool:
    try:
        return path.read_text(encoding="utf-8") == text
    except (OSError, UnicodeDecodeError):
        return False


def _is_ours(path: Path) -> bool:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    found = _CONTENT.match(text)
    return (
        text.startswith(_MARK)
        and found is not None
        and digest_bytes(text[found.end() :].encode()) == found.group(2)
    )
