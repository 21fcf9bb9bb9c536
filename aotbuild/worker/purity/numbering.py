"""Value numbering: a number for each value of a jaxpr, equal for values that are computed alike.

Names, the order of constants and of independent equations, and what is computed twice or passed on
to another place of an inner jaxpr decide no number. The order of effects does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise, repeat
from typing import Any

from jax.extend.core import Literal

from aotbuild.worker import private as jax_private
from aotbuild.worker.jaxprs import body_of, inner_jaxprs
from aotbuild.worker.purity.normalize import is_array, normalized

# Equations that call a jaxpr once with their inputs; those of any other kind may loop over it.
_CALLS = {
    *("closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "eval_jaxpr"),
    *("jit", "pjit", "remat", "remat2", "shard_map"),
}
# Parameters that decide no number, by the kind of equation: names, and functions whose jaxpr the
# equation has, or that only derivatives need.
_SILENT = {
    **dict.fromkeys(_CALLS, ("bwd", "fwd", "fwd_jaxpr_thunk", "jvp_jaxpr_fun", "name", "policy")),
    **dict.fromkeys(("name", "pallas_call"), ("name",)),
    "reduce": ("computation",),
}
# Parameters of calls that have an item for each input, or for each result.
_BY_INPUT = ("donated_invars", "in_layouts", "in_shardings", "in_specs")
_BY_RESULT = ("out_layouts", "out_shardings", "out_specs")
# What such a parameter says of an input that is passed on as it is.
_AS_IT_IS = (*map(normalized, (False, None)), ("UnspecifiedValue", "UnspecifiedValue"))
_COMMUTATIVE = ("add", "add_any", "and", "eq", "mul", "ne", "or", "xor")
# Other results each time, though jax knows of no effect.
_STATEFUL = ("rng_uniform",)


@dataclass
class Numbers:
    """The numbers of two jaxprs: equal descriptions have equal numbers.

    `constants` has the constants behind numbers, also where they are passed on to inner jaxprs.
    """

    constants: dict[int, Any] = field(default_factory=dict)
    _known: dict[Any, int] = field(default_factory=dict)
    # By address, because a digest of a large array takes time; the objects are kept alive.
    _arrays: dict[int, tuple[Any, int]] = field(default_factory=dict)

    def of(self, *description: Any) -> int:
        """Return the number of a value with this description."""
        return self._known.setdefault(description, len(self._known))

    def passed(self, way: tuple[Any, ...], number: int) -> int:
        """Return the number of a value as an inner jaxpr sees it."""
        if all(item in _AS_IT_IS for item in way):
            return number
        found = self.of("passed", way, number)
        if number in self.constants:
            self.constants.setdefault(found, self.constants[number])
        return found

    def constant(self, value: Any, aval: Any) -> int:
        """Return the number of a constant: that of its bytes."""
        known = self._arrays.get(id(value))
        if known is not None:
            return known[1]
        number = self.of("constant", normalized(value), str(aval))
        self.constants.setdefault(number, value)
        if is_array(value):
            self._arrays[id(value)] = value, number
        return number


@dataclass(frozen=True)
class Line:
    """An equation, the numbers of its inputs, and those of its results.

    Where it has effects, `before` and `after` are the numbers of all effects up to there.
    """

    equation: Any
    inputs: tuple[int, ...]
    before: int | None = None
    results: tuple[int, ...] = ()
    after: int | None = None

    @property
    def computes(self) -> tuple[int, ...]:
        """The numbers of results and effects."""
        return self.results if self.after is None else (*self.results, self.after)


class Body:
    """A closed jaxpr whose values have numbers, given those of its inputs."""

    def __init__(self, closed: Any, inputs: Sequence[int], numbers: Numbers) -> None:
        jaxpr = body_of(closed)
        self._numbers = numbers
        self._of: dict[Any, int] = dict(zip(jaxpr.invars, inputs, strict=True))
        values = getattr(closed, "consts", ())
        for i, variable in enumerate(jaxpr.constvars):
            # A jaxpr of a library's own primitive may have its constants elsewhere.
            known = numbers.constant(values[i], variable.aval) if i < len(values) else None
            self._of[variable] = numbers.of("unknown", i) if known is None else known
        self._effects = numbers.of("effects")
        self.lines = [self._line(equation) for equation in jaxpr.eqns]
        self.outvars = jaxpr.outvars
        self.results = tuple(map(self._number, jaxpr.outvars))
        self.computes = (*self.results, self._effects)

    def inner(self, line: Line) -> list[Body]:
        """Return the jaxprs inside an equation."""
        closed, given, _ = _passed_on(line, self._numbers)
        return [Body(*pair, self._numbers) for pair in zip(closed, given, strict=True)]

    def live_lines(self) -> list[Line]:
        """Return the equations that results or effects need, in order."""
        needed, found = set(self.computes), []
        for line in reversed(self.lines):
            if not needed.isdisjoint(line.computes):
                needed.update(line.inputs if line.before is None else (*line.inputs, line.before))
                found.append(line)
        return found[::-1]

    def _number(self, variable: Any) -> int:
        if isinstance(variable, Literal):
            return self._numbers.constant(variable.val, variable.aval)
        return self._of[variable]

    def _line(self, equation: Any) -> Line:
        inputs = tuple(map(self._number, equation.invars))
        is_effect = bool(equation.effects) or equation.primitive.name in _STATEFUL
        line = Line(equation, inputs, self._effects if is_effect else None)
        results, after = self._computed(line)
        self._of.update(zip(equation.outvars, results, strict=True))
        if after is not None:
            self._effects = after
        return replace(line, results=results, after=after)

    def _computed(self, line: Line) -> tuple[tuple[int, ...], int | None]:
        """Return the number of each result, and that of the effects if there are any."""
        equation, of = line.equation, self._numbers.of
        name, params = jax_private.name_and_params(equation)
        closed, given, placed = _passed_on(line, self._numbers)
        pairs = zip(closed, given, strict=True)
        bodies = tuple(Body(*pair, self._numbers).computes for pair in pairs)
        avals = [str(variable.aval) for variable in equation.outvars]
        if placed is None and line.before is None:
            kept = parameters(equation).items()
            rest = tuple(item for item in kept if item[0] not in (*_BY_INPUT, *_BY_RESULT))
            ways = _items(params, _BY_RESULT, len(avals))
            return tuple(map(of, repeat(name), repeat(rest), ways, avals, bodies[0])), None
        key = of(name, tuple(parameters(equation).items()), bodies, placed, line.before)
        results = tuple(of(key, index, aval) for index, aval in enumerate(avals))
        return results, None if line.before is None else of(key, "effects")


def _passed_on(
    line: Line, numbers: Numbers
) -> tuple[list[Any], list[Sequence[int]], tuple[int, ...] | None]:
    """Return the jaxprs inside an equation, the numbers of their inputs, and the placed inputs.

    The placed ones are those of the equation whose order counts: it does not for constants of a
    loop, which its jaxprs take by value. None: those of a call, which is what its jaxpr computes.
    """
    name, params = jax_private.name_and_params(line.equation)
    inputs, closed = line.inputs, list(inner_jaxprs(line.equation))
    sizes = [len(body_of(each).invars) for each in closed]
    given: list[Sequence[int]] = []
    placed: tuple[int, ...] | None = inputs
    if name in _CALLS:
        ways = _items(params, _BY_INPUT, len(inputs))
        given, placed = [tuple(map(numbers.passed, ways, inputs))], None
    elif name == "CustomRoot":
        # The other inputs are for its derivative.
        given, placed = [inputs[: sizes[0]]], None
    elif name == "cond":
        given, placed = [inputs[1:]] * len(closed), inputs[:1]
    elif name == "scan":
        constants, carry, slices = jax_private.scan_inputs(params, inputs)
        placed = tuple(carry)
        rest = [*_at_places(placed, numbers), *(numbers.passed(("slice",), n) for n in slices)]
        given = [[*constants, *rest]]
    elif name == "while":
        ends = list(accumulate((params["cond_nconsts"], params["body_nconsts"])))
        placed = inputs[ends[1] :]
        carry = _at_places(placed, numbers)
        given = [[*inputs[ends[0] : ends[1]], *carry], [*inputs[: ends[0]], *carry]]
    elif name == "custom_linear_solve":
        ends = list(accumulate(params["const_lengths"]))
        placed = inputs[ends[-1] :]
        vectors = _at_places(placed, numbers)
        parts = [inputs[a:b] for a, b in pairwise((0, *ends))]
        given = [[*part, *vectors] for part in parts]
    elif name in _COMMUTATIVE:
        placed = tuple(sorted(inputs))
    elif closed:
        given = [_at_places(inputs, numbers)] * len(closed)
    if sizes == list(map(len, given)):
        return closed, given, placed
    # Nothing is known of its inputs, such as the references that a kernel of Pallas takes.
    return closed, [[numbers.of("inner", i) for i in range(size)] for size in sizes], inputs


def _at_places(inputs: Sequence[int], numbers: Numbers) -> list[int]:
    return [numbers.passed((place,), number) for place, number in enumerate(inputs)]


def parameters(equation: Any) -> dict[str, Any]:
    """Return the parameters that decide what an equation computes, normalized and in order."""
    name, params = jax_private.name_and_params(equation)
    silent = _SILENT.get(name, ())
    return {key: normalized(params[key]) for key in sorted(params) if key not in silent}


def _items(params: dict[str, Any], names: Sequence[str], count: int) -> list[Any]:
    """Return what some parameters say of each input or result."""
    found = (params[name] for name in names if name in params)
    lists = [normalized(tuple(items))[1] for items in found if len(items) == count]
    return list(zip(*lists, strict=True)) or [()] * count
