"""Jaxprs: those inside an equation, and a check for what an executable cannot contain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jax.extend.core import ClosedJaxpr, Jaxpr
from jax.sharding import Mesh, NamedSharding

from aotbuild.build.jobs import Job
from aotbuild.errors import TraceRefused
from aotbuild.worker import private as jax_private
from aotbuild.worker.callbacks import KINDS, PRINT, Unnamed, check_equation


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
    "A host callback is an address in the process that traced it, unless its name leads to it. "
    "Call a function of a module, remove the callback, or move it outside the function (equinox "
    "and diffrax: set EQX_ON_ERROR to nan under env:)."
)
_REF_REMEDY = "Pass the value in as an argument, and return the new one."
_EFFECT_REMEDY = "Write it as a pure function: values in, values out."


def check_jaxpr(job: Job, closed_jaxpr: Any) -> None:
    """Raise TraceRefused with every callback, mutable closure and effect in a jaxpr."""
    problems = [*_refs(closed_jaxpr), *_equations(closed_jaxpr)]
    effects = [e for e in closed_jaxpr.effects if not _is_known(e)]
    if effects and not problems:
        names = ", ".join(sorted(type(effect).__name__ for effect in effects))
        problems.append(f"has side effects ({names})\n  {_EFFECT_REMEDY}")
    if problems:
        msg = "\n".join(f"{job.call} {problem}" for problem in dict.fromkeys(problems))
        raise TraceRefused(msg)


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


def _equations(closed: Any) -> Iterator[str]:
    for equation in body_of(closed).eqns:
        name = equation.primitive.name
        if name in KINDS or "callback" in name:
            yield from _callback(equation)
        else:
            for inner in inner_jaxprs(equation):
                yield from _equations(inner)


def _callback(equation: Any) -> Iterator[str]:
    name = equation.primitive.name
    reason = "it is none of jax's own"
    if name in KINDS:
        try:
            check_equation(equation)
        except Unnamed as err:
            reason = str(err)
        else:
            return
    what = "prints from Python" if name == PRINT else "calls back into Python"
    yield f"{what} ({name}){_at(equation)}: {reason}\n  {_CALLBACK_REMEDY}"


def callbacks_in(closed: Any) -> Iterator[str]:
    """Yield the name of the primitive of every callback, also of those inside an equation."""
    for equation in body_of(closed).eqns:
        if equation.primitive.name in KINDS:
            yield equation.primitive.name
        for inner in inner_jaxprs(equation):
            yield from callbacks_in(inner)


def _is_known(effect: Any) -> bool:
    return jax_private.is_internal_effect(effect) or jax_private.is_callback_effect(effect)


def _at(equation: Any) -> str:
    line = jax_private.source_line(equation)
    return f" at {line}" if line else ""
