"""What a trace is told from another one by: its operations, and the constants in them.

Both are digests that mean the same in every process, for every platform, and without paths.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jax.extend.core import Literal

from aotbuild.format.canonical import canonical_json, sha256_hex
from aotbuild.worker import private as jax_private
from aotbuild.worker.jaxprs import body_of, inner_jaxprs
from aotbuild.worker.purity.normalize import array_digest, is_array
from aotbuild.worker.purity.values import is_a


def program_of(closed_jaxpr: Any) -> dict[str, str]:
    """Return the digests of a trace, as `provenance.trace` has them.

    `constants` are the distinct values that it contains, in whichever order. `operations` are its
    equations with these values, dtypes, shapes, and those parameters that are numbers. Names and
    objects are left out: they may name paths or addresses.
    """
    found = _Program()
    found.add(closed_jaxpr)
    return {
        "constants": sha256_hex(canonical_json(sorted(found.values))),
        "operations": sha256_hex(canonical_json(found.lines)),
    }


@dataclass
class _Program:
    values: set[str] = field(default_factory=set)
    lines: list[Any] = field(default_factory=list)
    # Arrays and their digests by id; an array that is alive keeps its own.
    _known: dict[int, tuple[Any, str]] = field(default_factory=dict)

    def add(self, closed: Any, depth: int = 0) -> None:
        """Add a jaxpr, and those inside of its equations."""
        jaxpr = body_of(closed)
        numbers: dict[Any, int] = {}
        for variable in (*jaxpr.constvars, *jaxpr.invars):
            numbers[variable] = len(numbers)
        consts = [self._value(value) for value in getattr(closed, "consts", ())]
        self.lines.append([depth, [_aval(v) for v in jaxpr.invars], consts])
        for equation in jaxpr.eqns:
            inputs = [self._input(value, numbers) for value in equation.invars]
            for variable in equation.outvars:
                numbers[variable] = len(numbers)
            name, params = jax_private.name_and_params(equation)
            outputs = [_aval(variable) for variable in equation.outvars]
            kept = [[n, found] for n, v in sorted(params.items()) if (found := self._plain(v))]
            self.lines.append([depth, name, inputs, outputs, kept])
            for inner in inner_jaxprs(equation):
                self.add(inner, depth + 1)
        self.lines.append([depth, [self._input(value, numbers) for value in jaxpr.outvars]])

    def _input(self, value: Any, numbers: dict[Any, int]) -> Any:
        return self._value(value.val, value.aval) if is_a(value, Literal) else numbers.get(value)

    def _value(self, value: Any, aval: Any = None) -> str:
        value = jax_private.constant_array(value)
        if id(value) in self._known:
            return self._known[id(value)][1]
        digest = _digest(value, aval)
        self.values.add(digest)
        if is_array(value):
            self._known[id(value)] = value, digest
        return digest

    def _plain(self, value: Any) -> Any:
        """Return a parameter as JSON if it is a number, an array, or a sequence of them."""
        if is_array(value):
            return self._value(value)
        if is_a(value, (bool, int, float, complex, np.generic)):
            return repr(value)
        if is_a(value, (tuple, list)):
            found = [self._plain(item) for item in value]
            return found if any(item is not None for item in found) else None
        return None


def _aval(variable: Any) -> str:
    aval = variable.aval
    return f"{getattr(aval, 'dtype', '')}{getattr(aval, 'shape', '')}"


def _digest(value: Any, aval: Any) -> str:
    if not is_array(value) and is_a(value, (bool, int, float, complex)):
        value = np.asarray(value, getattr(aval, "dtype", None))
    found = array_digest(value) if is_array(value) else (type(value).__name__,)
    return sha256_hex(canonical_json([*found]))
