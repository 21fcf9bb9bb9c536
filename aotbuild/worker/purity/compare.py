"""The first difference between two jaxprs: in structure and in numbers, not in names."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

import numpy as np
from jax.extend.core import Literal

from aotbuild.worker import private as jax_private
from aotbuild.worker.jaxprs import body_of, inner_jaxprs
from aotbuild.worker.purity.normalize import normalized, numbers, same_array

_LONGEST_EQUATION = 160
_LONGEST_VALUE = 60


@dataclass(frozen=True)
class Difference:
    """A difference in words, and the equation of each trace that shows it; "" if it has none.

    `line` is `file:line in function` of the user's code, or "".
    """

    what: str
    first: str = ""
    second: str = ""
    line: str = ""


def first_difference(first: Any, second: Any) -> Difference | None:
    """Return where two closed jaxprs differ first, or None where they compute the same."""
    return _Bodies(first, second).difference()


@dataclass
class _Bodies:
    """Two jaxprs to compare. `changed` has variables of the first whose values differ, and how."""

    first: Any
    second: Any
    changed: dict[Any, str] = field(default_factory=dict)
    _same: dict[Any, Any] = field(default_factory=dict)

    def difference(self) -> Difference | None:
        """Return the first difference in the order of the equations, then of the results."""
        bodies = [body_of(closed) for closed in (self.first, self.second)]
        self._compare_constants(*bodies)
        for a, b in zip(*(body.invars for body in bodies), strict=False):
            self._same[b] = a
        for a, b in zip_longest(*(body.eqns for body in bodies)):
            found = self._equations(a, b)
            if found is not None:
                return found
        return self._results(*(body.outvars for body in bodies))

    def _compare_constants(self, *bodies: Any) -> None:
        # A difference of constants is reported where they are used, as that has a line of source.
        values = (_constants(closed) for closed in (self.first, self.second))
        variables = (body.constvars for body in bodies)
        for a, b, x, y in zip(*variables, *values, strict=False):
            self._same[b] = a
            if not same_array(x, y):
                self.changed[a] = f"a constant, {_shown(x)} then {_shown(y)}"

    def _equations(self, a: Any, b: Any) -> Difference | None:
        if a is None or b is None:
            which = "first" if b is None else "second"
            return _difference(f"only the {which} trace has this equation", a, b)
        if a.primitive.name != b.primitive.name:
            return _difference("other equations", a, b)
        inner = self._inner(a, b)
        if inner is not None:
            # An equation without a line of the user's is inside one that has it.
            return inner if inner.line else replace(inner, line=jax_private.source_line(a))
        what = self._inputs(a, b) or _parameters(a, b) or self._outputs(a, b)
        return _difference(what, a, b) if what else None

    def _inner(self, a: Any, b: Any) -> Difference | None:
        for x, y in zip(inner_jaxprs(a.params), inner_jaxprs(b.params), strict=False):
            variables = body_of(x).invars
            changed = {}
            if len(variables) == len(a.invars) == len(b.invars):
                pairs = zip(variables, a.invars, b.invars, strict=True)
                changed = {v: what for v, i, j in pairs if (what := self._input(i, j))}
            found = _Bodies(x, y, changed).difference()
            if found is not None:
                return found
        return None

    def _inputs(self, a: Any, b: Any) -> str:
        if len(a.invars) != len(b.invars):
            return f"{len(a.invars)} inputs, then {len(b.invars)}"
        return next(filter(None, map(self._input, a.invars, b.invars)), "")

    def _input(self, a: Any, b: Any) -> str:
        """Return how one input or result differs, or ""."""
        if isinstance(a, Literal) and isinstance(b, Literal):
            same = normalized(a.val) == normalized(b.val) and _same_aval(a, b)
            return "" if same else f"a constant, {_shown(a.val)} then {_shown(b.val)}"
        if isinstance(a, Literal) or isinstance(b, Literal) or self._same.get(b) is not a:
            return "another input"
        return self.changed.get(a, "")

    def _outputs(self, a: Any, b: Any) -> str:
        if len(a.outvars) != len(b.outvars):
            return f"{len(a.outvars)} outputs, then {len(b.outvars)}"
        for x, y in zip(a.outvars, b.outvars, strict=True):
            if not _same_aval(x, y):
                return f"{x.aval} then {y.aval}"
            self._same[y] = x
        return ""

    def _results(self, first: Any, second: Any) -> Difference | None:
        if len(first) != len(second):
            return Difference(f"{len(first)} results, then {len(second)}")
        for i, (a, b) in enumerate(zip(first, second, strict=True)):
            what = self._input(a, b)
            if what:
                return Difference(f"result {i} is {what}")
        return None


def equation_text(equation: Any) -> str:
    """Return an equation on one line, without nested jaxprs; "" for None."""
    if equation is None:
        return ""
    text, depth = [], 0
    for character in str(equation):
        depth += character == "{"
        if not depth:
            text.append(character)
        if character == "}":
            depth -= 1
            text.append("{…}" if not depth else "")
    return _cut(" ".join("".join(text).split()), _LONGEST_EQUATION)


def _parameters(a: Any, b: Any) -> str:
    for name in sorted({*a.params, *b.params}):
        x, y = normalized(a.params.get(name)), normalized(b.params.get(name))
        if x != y:
            values = (_cut(str(e.params.get(name)), _LONGEST_VALUE) for e in (a, b))
            return f"{name}, {' then '.join(values)}"
    return ""


def _difference(what: str, a: Any, b: Any) -> Difference:
    line = next(filter(None, (jax_private.source_line(e) for e in (a, b) if e is not None)), "")
    return Difference(what, equation_text(a), equation_text(b), line)


def _constants(closed: Any) -> tuple[Any, ...]:
    return tuple(getattr(closed, "consts", ()))


def _same_aval(a: Any, b: Any) -> bool:
    return bool(a.aval == b.aval) or str(a.aval) == str(b.aval)


def _shown(value: Any) -> str:
    data = numbers(value) if hasattr(value, "dtype") else value
    if isinstance(data, np.ndarray):
        data = data.item() if data.ndim == 0 else np.array2string(data, threshold=6, edgeitems=2)
    return _cut(" ".join(str(data).split()), _LONGEST_VALUE)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
