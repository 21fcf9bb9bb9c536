"""The first difference between two jaxprs: in structure and in numbers, not in names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from aotbuild.worker import private as jax_private
from aotbuild.worker.jaxprs import body_of
from aotbuild.worker.purity.normalize import numbers
from aotbuild.worker.purity.numbering import Body, Line, Numbers, parameters

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
    numbers = Numbers()
    a, b = (Body(closed, _inputs(closed, numbers), numbers) for closed in (first, second))
    return _Pair(a, b, numbers.constants).difference()


@dataclass(frozen=True)
class _Pair:
    """Two bodies to compare; `constants` has the values of numbers."""

    first: Body
    second: Body
    constants: dict[int, Any]

    def difference(self) -> Difference | None:
        """Return the first equation that only one of them has, or the first result; None if equal.

        Equations that nothing needs are no difference.
        """
        if self.first.computes == self.second.computes:
            return None
        a, b = _first_without(self.first, self.second), _first_without(self.second, self.first)
        if a is None and b is None:
            return self._results()
        if a is None or b is None:
            which = "first" if b is None else "second"
            return _difference(f"only the {which} trace has this equation", a, b)
        names = [jax_private.name_and_params(line.equation)[0] for line in (a, b)]
        if names[0] != names[1]:
            return _difference("other equations", a, b)
        inner = self._inner(a, b)
        if inner is not None:
            # An equation without a line of the user's is inside one that has it.
            line = inner.line or jax_private.source_line(a.equation)
            return replace(inner, line=line)
        what = self._inputs(a, b) or _parameters(a.equation, b.equation) or _outputs(a, b)
        return _difference(what or "other effects before it", a, b)

    def _inner(self, a: Line, b: Line) -> Difference | None:
        pairs = zip(self.first.inner(a), self.second.inner(b), strict=False)
        found = (_Pair(x, y, self.constants).difference() for x, y in pairs)
        return next(filter(None, found), None)

    def _inputs(self, a: Line, b: Line) -> str:
        if len(a.inputs) != len(b.inputs):
            return f"{len(a.inputs)} inputs, then {len(b.inputs)}"
        return next(filter(None, map(self._input, a.inputs, b.inputs)), "")

    def _input(self, a: int, b: int) -> str:
        """Return how one input or result differs, or ""."""
        if a == b:
            return ""
        if a in self.constants and b in self.constants:
            return f"a constant, {_shown(self.constants[a])} then {_shown(self.constants[b])}"
        return "another input"

    def _results(self) -> Difference:
        first, second = self.first.results, self.second.results
        if len(first) != len(second):
            return Difference(f"{len(first)} results, then {len(second)}")
        words = map(self._input, first, second)
        found = next(((i, what) for i, what in enumerate(words) if what), None)
        return Difference(
            "result {} is {}".format(*found) if found else "the order of side effects"
        )


def _inputs(closed: Any, numbers: Numbers) -> list[int]:
    # Counted from the last: values of another trace come first.
    variables = body_of(closed).invars
    places = range(-len(variables), 0)
    return [numbers.of("input", i, str(v.aval)) for i, v in zip(places, variables, strict=True)]


def _first_without(body: Body, other: Body) -> Line | None:
    """Return the first equation that computes what the other jaxpr does not."""
    computed = {number for line in other.lines for number in line.computes}
    return next(
        (line for line in body.live_lines() if not computed.issuperset(line.computes)), None
    )


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
    kept = parameters(a), parameters(b)
    names = (
        name for name in sorted({*kept[0], *kept[1]}) if kept[0].get(name) != kept[1].get(name)
    )
    name = next(names, "")
    values = [jax_private.name_and_params(equation)[1].get(name) for equation in (a, b)]
    texts = (jax_private.callback_name(value) or str(value) for value in values)
    return name and f"{name}, {' then '.join(_cut(text, _LONGEST_VALUE) for text in texts)}"


def _outputs(a: Line, b: Line) -> str:
    avals = [[str(v.aval) for v in line.equation.outvars] for line in (a, b)]
    if len(avals[0]) != len(avals[1]):
        return f"{len(avals[0])} outputs, then {len(avals[1])}"
    return next((f"{x} then {y}" for x, y in zip(*avals, strict=True) if x != y), "")


def _difference(what: str, a: Line | None, b: Line | None) -> Difference:
    equations = [line.equation if line else None for line in (a, b)]
    places = (jax_private.source_line(e) for e in equations if e is not None)
    first, second = map(equation_text, equations)
    return Difference(what, first, second, next(filter(None, places), ""))


def _shown(value: Any) -> str:
    data = numbers(value) if hasattr(value, "dtype") else value
    if isinstance(data, np.ndarray):
        data = data.item() if data.ndim == 0 else np.array2string(data, threshold=6, edgeitems=2)
    return _cut(" ".join(str(data).split()), _LONGEST_VALUE)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
