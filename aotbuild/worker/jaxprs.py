"""Jaxprs: those inside an equation, what an executable cannot contain, and what tells two apart.

A program as rows of text means the same in every process, without paths: an error shows the first
row that differs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal
from jax.sharding import Mesh, NamedSharding

from aotbuild.build.jobs import Job
from aotbuild.errors import TraceRefused
from aotbuild.format.dtypes import UNUSABLE, WIDER
from aotbuild.worker import private as jax_private
from aotbuild.worker.leaves import array_digest, is_array

# Primitives of kernels outside of XLA: any of the user, and jaxlib's for sparse matrices.
_KERNELS = frozenset({"bcsr_dot_general", "ffi_call"})


def is_jaxpr(value: Any) -> bool:
    """Return whether a parameter is a jaxpr, closed or not."""
    return isinstance(value, (Jaxpr, ClosedJaxpr))


def inner_jaxprs(equation: Any) -> Iterator[Any]:
    """Yield the jaxprs among an equation's parameters, in the order of their names."""
    for _, value in sorted(jax_private.name_and_params(equation)[1].items()):
        for item in value if isinstance(value, (tuple, list)) else (value,):
            if is_jaxpr(item):
                yield item


def body_of(closed: Any) -> Any:
    """Return a jaxpr without its constants."""
    return getattr(closed, "jaxpr", closed)


def meshes(closed: Any) -> Iterator[Mesh]:
    """Yield the meshes of devices that the user's code made, repeatedly."""
    for equation in body_of(closed).eqns:
        # jax wrote `ctx_mesh` itself: the mesh around the trace.
        values = (value for name, value in equation.params.items() if name != "ctx_mesh")
        for value in values:
            for item in value if isinstance(value, (tuple, list)) else (value,):
                mesh = item.mesh if isinstance(item, NamedSharding) else item
                if isinstance(mesh, Mesh):
                    yield mesh
        for inner in inner_jaxprs(equation):
            yield from meshes(inner)


_CALLBACK_REMEDY = (
    "A host callback is an address in the process that traced it. Remove it, or move it outside "
    "the function (equinox and diffrax: set EQX_ON_ERROR to nan under env:)."
)
_REF_REMEDY = "Pass the value in as an argument, and return the new one."
_EFFECT_REMEDY = "Write it as a pure function: values in, values out."


def check_jaxpr(job: Job, closed_jaxpr: Any) -> None:
    """Raise TraceRefused with every callback, mutable closure and effect in a jaxpr."""
    problems = [*_refs(closed_jaxpr), *_equations(closed_jaxpr)]
    effects = [e for e in closed_jaxpr.effects if not jax_private.is_internal_effect(e)]
    if effects and not problems:
        names = ", ".join(sorted(type(effect).__name__ for effect in effects))
        problems.append(f"has side effects ({names})\n  {_EFFECT_REMEDY}")
    if problems:
        msg = "\n".join(f"{job.call} {problem}" for problem in dict.fromkeys(problems))
        raise TraceRefused(msg)


def refuse_callbacks(job: Job, closed_jaxpr: Any, platform: str) -> NoReturn:
    """Raise TraceRefused with the operations whose lowering calls Python, as that of `spsolve`."""
    leaves = {each.primitive: each for each in _leaf_equations(closed_jaxpr)}
    names = (f" ({e.primitive}){_at(e)}" for e in leaves.values() if _lowers_to_python(e, platform))
    found = "\n".join(f"{job.call} calls back into Python{name}" for name in names)
    msg = f"{found or f'{job.call} calls back into Python'}\n  {_CALLBACK_REMEDY}"
    raise TraceRefused(msg)


def takes_indices(closed: Any) -> bool:
    """Return whether a kernel outside of XLA takes integers; it may read where they point."""
    return any(
        equation.primitive.name in _KERNELS and any(map(is_integer, map(_dtype, equation.invars)))
        for equation in _leaf_equations(closed)
    )


def is_integer(dtype: str) -> bool:
    """Return whether a dtype has integers."""
    return dtype.startswith(("int", "uint"))


def _leaf_equations(closed: Any) -> Iterator[Any]:
    for equation in body_of(closed).eqns:
        inner = list(inner_jaxprs(equation))
        yield from (
            itertools.chain.from_iterable(map(_leaf_equations, inner)) if inner else [equation]
        )


def _lowers_to_python(equation: Any, platform: str) -> bool:
    avals = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in equation.invars]
    jitted = jax.jit(lambda *values: equation.primitive.bind(*values, **equation.params))
    try:
        stage = jitted.trace(*avals).lower(lowering_platforms=(platform,))
    except Exception:  # noqa: BLE001 - one that cannot be lowered alone is not named
        return False
    return jax_private.has_host_callbacks(stage)


def _refs(closed_jaxpr: Any) -> Iterator[str]:
    jaxpr = closed_jaxpr.jaxpr
    for variable, constant in zip(jaxpr.constvars, closed_jaxpr.consts, strict=True):
        if jax_private.is_mutable_ref(constant):
            uses = (equation for equation in jaxpr.eqns if variable in equation.invars)
            where = next(map(_at, uses), "")
            yield f"closes over a mutable array, {variable.aval}{where}\n  {_REF_REMEDY}"
    for variable in jaxpr.invars:
        if str(variable.aval).startswith("Ref{"):
            yield f"takes a mutable array, {variable.aval}\n  {_REF_REMEDY}"
        if (dtype := _dtype(variable)) in UNUSABLE:
            yield f"takes an array of {dtype}: {WIDER}"


def _equations(closed: Any) -> Iterator[str]:
    for equation in body_of(closed).eqns:
        name = equation.primitive.name
        if name == "debug_print" or "callback" in name:
            what = "prints from Python" if name == "debug_print" else "calls back into Python"
            yield f"{what} ({name}){_at(equation)}\n  {_CALLBACK_REMEDY}"
        elif unusable := UNUSABLE.keys() & set(map(_dtype, equation.outvars)):
            yield f"makes an array of {', '.join(unusable)} ({name}){_at(equation)}: {WIDER}"
        else:
            for inner in inner_jaxprs(equation):
                yield from _equations(inner)


def _dtype(variable: Any) -> str:
    return str(getattr(variable.aval, "dtype", ""))


def _at(equation: Any) -> str:
    line = jax_private.source_line(equation)
    return f" at {line}" if line else ""


# --- rows of a program ----------------------------------------------------------------------------

# What is shown of a constant: numbers, and the beginning of a digest.
_SHOWN_DIGITS = 12


@dataclass
class Program:
    """The rows of a program, and the equation of each; None for the beginning and end of a jaxpr.

    A row has the operation, its constants, dtypes and shapes, and those parameters that are
    numbers. Names and objects are left out: they may name paths or addresses.
    """

    rows: list[str] = field(default_factory=list)
    equations: list[Any] = field(default_factory=list)
    # Arrays and their texts by id; an array that is alive keeps its own.
    _known: dict[int, tuple[Any, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, closed_jaxpr: Any) -> Program:
        """Return the rows of a closed jaxpr and of those inside of its equations."""
        found = cls()
        found._add(closed_jaxpr, 0)
        return found

    def _add(self, closed: Any, depth: int) -> None:
        jaxpr = body_of(closed)
        numbers: dict[Any, int] = {}
        for variable in (*jaxpr.constvars, *jaxpr.invars):
            numbers[variable] = len(numbers)
        consts = " ".join(self._value(value) for value in getattr(closed, "consts", ()))
        self._row(depth, f"inputs {' '.join(map(_aval, jaxpr.invars))}; constants {consts}")
        for equation in jaxpr.eqns:
            inputs = ", ".join(self._input(value, numbers) for value in equation.invars)
            for variable in equation.outvars:
                numbers[variable] = len(numbers)
            name, params = jax_private.name_and_params(equation)
            outputs = ", ".join(map(_aval, equation.outvars))
            kept = [f"{n}={found}" for n, v in sorted(params.items()) if (found := self._plain(v))]
            self._row(depth, f"{' '.join([name, *kept])}({inputs}) -> {outputs}", equation)
            for inner in inner_jaxprs(equation):
                self._add(inner, depth + 1)
        results = ", ".join(self._input(value, numbers) for value in jaxpr.outvars)
        self._row(depth, f"results {results}")

    def _row(self, depth: int, text: str, equation: Any = None) -> None:
        self.rows.append(f"{'  ' * depth}{text}")
        self.equations.append(equation)

    def _input(self, value: Any, numbers: dict[Any, int]) -> str:
        if isinstance(value, Literal):
            return self._value(value.val, value.aval)
        return f"%{numbers[value]}" if value in numbers else "a value of another trace"

    def _value(self, value: Any, aval: Any = None) -> str:
        value = jax_private.constant_array(value)
        if id(value) in self._known:
            return self._known[id(value)][1]
        if not is_array(value) and isinstance(value, bool | int | float | complex):
            value = np.asarray(value, getattr(aval, "dtype", None))
        text = _constant(value)
        if is_array(value):
            self._known[id(value)] = value, text
        return text

    def _plain(self, value: Any) -> str:
        """Return a parameter as text if it is a number, an array, or a sequence of them; or ""."""
        if is_array(value):
            return self._value(value)
        if isinstance(value, bool | int | float | complex | np.generic):
            return repr(value)
        if isinstance(value, tuple | list):
            found = [self._plain(item) for item in value]
            return f"[{', '.join(found)}]" if any(found) else ""
        return ""


def _aval(variable: Any) -> str:
    aval = variable.aval
    return f"{_dtype(variable)}{list(getattr(aval, 'shape', ()))}"


def _constant(value: Any) -> str:
    """Return a constant as text: a single number as it is, other arrays by their digest."""
    if not is_array(value):
        return type(value).__name__
    kind, dtype, shape, *digest = array_digest(value)
    if not shape and dtype.startswith(("float", "int", "uint", "bool")):
        return f"{value!s}:{dtype}"
    return f"{kind} {dtype}[{','.join(shape)}] {digest[0][:_SHOWN_DIGITS]}"
