"""Arguments that do not fit the parameters of a function, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from aotbuild.errors import SignatureMismatch
from aotbuild.format.about import UNKNOWN, About, Parameter
from aotbuild.format.signature import Function
from aotbuild.format.values import cut, shown
from aotbuild.format.words import did_you_mean

_LONGEST = 60
_BY_POSITION = ("positional_only", "positional_or_keyword")


def name_mismatch(
    function: Function, problems: Sequence[tuple[str, str]], given: int
) -> SignatureMismatch:
    """Return the error for `problems` of `runtime.binding`; `given` arguments were positional."""
    words = _Words(function)
    texts = [text for problem in problems for text in words.of(*problem, given)]
    expected = f"expected {function.name}({', '.join(_parameters(function))})"
    return SignatureMismatch(function.name, "; ".join(texts), [expected], words.remedy())


def _parameters(function: Function) -> Iterator[str]:
    """Yield the parameters that a call gives, as Python writes them."""
    defaults = {
        s.name: f"={cut(shown(s.default), _LONGEST)}" for s in function.statics if s.has_default
    }
    defaults |= dict.fromkeys(function.optional, "=…")
    given = {*function.dynamic, *function.keywords, *(static.name for static in function.statics)}
    # What follows a parameter that was compiled in at its default can only be given by name.
    by_position = list(takewhile(given.__contains__, function.positional))
    by_name = [name for name in function.positional if name in given and name not in by_position]
    by_name += sorted(given.difference(function.positional))
    for name in [*by_position, *["*"] * bool(by_name), *by_name]:
        yield name + defaults.get(name, "")


class _Words:
    def __init__(self, function: Function) -> None:
        self._function = function
        self._known = {p.name: p for p in About.of(function.about).parameters}
        statics = (static.name for static in function.statics)
        self._required = [*function.dynamic, *function.keywords, *statics]
        # The arguments of which the default was compiled, and whether others are wrong.
        self._compiled_in: list[str] = []
        self._others = False

    def of(self, kind: str, name: str, given: int) -> Iterator[str]:
        """Yield the words for one problem."""
        if kind == "too many":
            yield from self._too_many(given)
        elif kind == "compiled in" or (kind == "unexpected" and name in self._known):
            yield self._is_compiled_in(name)
        else:
            self._others = True
            yield {
                "twice": f"got multiple values for argument {name!r}",
                "missing": f"missing a required argument: {name!r}",
                "unexpected": f"got an unexpected keyword argument {name!r}"
                f"{did_you_mean(name, self._required)}",
            }[kind]

    def _too_many(self, given: int) -> Iterator[str]:
        count = len(self._function.positional)
        beyond = [p.name for p in self._known.values() if p.kind in _BY_POSITION][count:given]
        if len(beyond) == given - count:
            yield from map(self._is_compiled_in, beyond)
            return
        self._others = True
        yield f"takes {count} positional arguments but {given} were given"

    def _is_compiled_in(self, name: str) -> str:
        self._compiled_in.append(name)
        parameter = self._known.get(name, Parameter(name, ""))
        is_known = parameter.has_default and parameter.default != UNKNOWN
        value = f", {cut(shown(parameter.default), _LONGEST)}" if is_known else ""
        return f"argument {name!r} is compiled in at its default{value}"

    def remedy(self) -> str:
        """Return what to do about all problems."""
        names = ", ".join(self._compiled_in)
        leave = (
            f"Leave {names} out, or list it under static: in the manifest (an array: under args:) "
            "and build again."
        )
        call = "Call it as the second line says."
        return " ".join([*[leave] * bool(names), *[call] * (self._others or not names)])
