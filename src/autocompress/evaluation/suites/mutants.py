"""Code as multiple choice: a correct function among versions of it with one small fault each."""

from __future__ import annotations

import ast
import hashlib
import io
import keyword
import tokenize
from collections import Counter
from collections.abc import Iterator

#: A token and what a slip of the pen makes of it.
_SLIPS = {
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "==": "!=",
    "!=": "==",
    "+": "-",
    "-": "+",
    "*": "+",
    "//": "*",
    "/": "*",
    "%": "//",
    "+=": "-=",
    "-=": "+=",
    "and": "or",
    "or": "and",
    "True": "False",
    "False": "True",
    "min": "max",
    "max": "min",
    "sum": "len",
    "all": "any",
    "any": "all",
    "lower": "upper",
    "upper": "lower",
    "append": "extend",
    "break": "continue",
    "continue": "break",
    "in": "not in",
}


def mutants(prompt: str, solution: str, count: int) -> tuple[str, ...]:
    """``count`` versions of ``solution`` that parse after ``prompt``, with one other token each.

    Which ones is decided by a hash of their text. Nothing is executed, so that now and then a
    mutant may compute the same as the original. Fewer, even none, when the solution has no more
    places to go wrong.
    """
    found = {
        text for text in _edits(prompt, solution) if text != solution and _parses(prompt + text)
    }
    return tuple(sorted(found, key=lambda text: hashlib.sha256(text.encode()).digest())[:count])


def _edits(prompt: str, solution: str) -> Iterator[str]:
    source = prompt + solution
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    names: list[tuple[int, str]] = []
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (tokenize.TokenError, SyntaxError):
        return
    for token in tokens:
        at = starts[token.start[0] - 1] + token.start[1] - len(prompt)
        if at < 0:
            continue
        after = solution[at + len(token.string) :]
        if token.type == tokenize.NUMBER and token.string.isdigit():
            yield solution[:at] + str(int(token.string) + 1) + after
        elif token.string in _SLIPS and token.type in (tokenize.OP, tokenize.NAME):
            yield solution[:at] + _SLIPS[token.string] + after
        elif token.string == "not":
            yield solution[:at] + after.removeprefix(" ")
        elif token.type == tokenize.NAME and not keyword.iskeyword(token.string):
            names.append((at, token.string))
    yield from _swapped_names(solution, names)


def _swapped_names(solution: str, names: list[tuple[int, str]]) -> Iterator[str]:
    # A name where another variable of the same function was meant.
    called = {name for at, name in names if solution[at + len(name) :].startswith("(")}
    attributes = {name for at, name in names if solution[:at].endswith(".")}
    counts = Counter(name for _, name in names)
    variables = sorted(
        name for name, uses in counts.items() if uses > 1 and name not in called | attributes
    )
    for at, name in names:
        if name in variables:
            for other in variables:
                if other != name:
                    yield solution[:at] + other + solution[at + len(name) :]


def _parses(source: str) -> bool:
    try:
        ast.parse(source)
    except (SyntaxError, ValueError):
        return False
    return True
