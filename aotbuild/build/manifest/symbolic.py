"""Check the symbolic expressions of `export:` for form; jax.export itself reads them at build.

The grammar is that of jax.export.symbolic_shape (docs.jax.dev, "Shape polymorphism").
"""

from __future__ import annotations

import re

_TOKEN = re.compile(r"\s*(?:(?P<name>[A-Za-z_]\w*)|(?P<number>[0-9]{1,18})|(?P<sign>[-+*^(),]))")
_COMPARE = re.compile(r"<=|>=|==")
_FUNCTIONS = frozenset({"floordiv", "mod", "max", "min"})
_LONGEST = 200


def expression_names(text: str) -> frozenset[str] | None:
    """Return the names in an expression, or None where it is none."""
    tokens = _tokens(text)
    if not tokens or not _alternates(tokens) or not _balanced(tokens):
        return None
    return frozenset(t for t in tokens if t.isidentifier() and t not in _FUNCTIONS)


def constraint_names(text: str) -> frozenset[str] | None:
    """Return the names in ``expression <= expression`` (or >=, ==), or None."""
    sides = [expression_names(side) for side in _COMPARE.split(text)]
    left, right = sides if len(sides) == 2 else (None, None)
    return None if left is None or right is None else left | right


def _tokens(text: str) -> list[str] | None:
    text, tokens, place = text.rstrip(), [], 0
    if len(text) > _LONGEST or not text.isascii():
        return None
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            return None
        tokens.append(match[0].strip())
        place = match.end()
    return tokens


def _alternates(tokens: list[str]) -> bool:
    """Return whether operands and operators take turns."""
    operand = False  # whether an operand has just ended
    previous = ""
    for part in tokens:
        if part == "(":
            called = previous in _FUNCTIONS
            fits, operand = not operand or called, False
        elif part == ")":
            fits = operand
        elif part[0].isalnum() or part[0] == "_":
            fits, operand = not operand, True
        else:
            fits, operand = operand or part in "+-", False
        if not fits:
            return False
        previous = part
    return operand


def _balanced(tokens: list[str]) -> bool:
    depth = 0
    for part in tokens:
        depth += {"(": 1, ")": -1}.get(part, 0)
        if depth < 0:
            return False
    return depth == 0
