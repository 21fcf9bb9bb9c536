"""The reference: the user's function under plain `jax.jit` on a CPU, and what it returns."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from aotbuild.build.jobs import Job
from aotbuild.format.canonical import canonical_digest, sha256_hex
from aotbuild.worker import private as jax_private
from aotbuild.worker.jaxprs import body_of, inner_jaxprs
from aotbuild.worker.jitted import Jitted, in_mesh
from aotbuild.worker.leaves import array_digest, as_numpy
from aotbuild.worker.trace import Traced, jit_like
from aotbuild.worker.user_errors import shorten

_STATIC = object()


class NotForHost(Exception):
    """The function does not run on a CPU, such as one with a kernel for TPUs."""

    def __init__(self, error: Exception) -> None:
        first = shorten(str(error)).partition("\n")[0]
        reason = f"{type(error).__name__}: {first}"
        super().__init__(f"the function does not run on a CPU, which would compute them: {reason}")


@dataclass(frozen=True)
class Reference:
    """A function at one signature, traced (`stage`) and lowered as `jax.jit` does it."""

    traced: Traced
    jitted: Jitted
    stage: Any
    lowered: Any

    @property
    def identity(self) -> str:
        """The digest of the lowered module, and of constants that it takes as inputs."""
        module = sha256_hex(jax_private.module_bytes(self.lowered))
        constants = map(jax_private.constant_array, jax_private.const_args(self.lowered))
        digests = list(map(array_digest, constants))
        return canonical_digest([module, digests]) if digests else module

    @property
    def result_bytes(self) -> int:
        """The size of the result in bytes, without typed PRNG keys, whose size is not known."""
        leaves = self.stage.jaxpr.out_avals
        return sum(leaf.size * getattr(leaf.dtype, "itemsize", 0) for leaf in leaves)

    def compile(self) -> Any:
        """Return the `jax.stages.Compiled`."""
        with in_mesh(self.jitted.context):
            return self.lowered.compile()

    def outputs(self, compiled: Any, leaves: Sequence[Any]) -> list[Any]:
        """Call what `compile` returned; return each output, whole, as a numpy array."""
        args, kwargs = self._call(leaves)
        with in_mesh(self.jitted.context):
            outputs = jax.tree.leaves(compiled(*args, **kwargs))
            return [as_numpy(output) for output in outputs]

    def _call(self, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return leaves as the function takes them, without the static arguments."""
        treedef = jax.tree.structure(self.jitted.canonical)
        values, named = jax.tree.unflatten(treedef, leaves)
        binding = self.jitted.binding
        args = dict(zip(self.jitted.args, values, strict=True))
        statics = {name: _STATIC for name, _ in binding.statics}
        given, keywords = self.jitted.arguments(args, named, statics)
        left = {name: value for name, value in keywords.items() if value is not _STATIC}
        return tuple(value for value in given if value is not _STATIC), left


def lower_job(traced: Traced, job: Job) -> Reference:
    """Lower a job's function, such as the traced one at other sizes; it may raise anything."""
    jitted = jit_like(traced, job)
    stage = jitted.trace()
    with in_mesh(jitted.context):
        return Reference(traced, jitted, stage, stage.lower())


def lower_reference(traced: Traced) -> Reference:
    """Trace and lower a job's function as `jax.jit` does; each symbolic dim has a size.

    If the job was traced with these sizes, jax has the trace already. NotForHost if it cannot be.
    """
    jit_like(traced, traced.job)
    try:
        return lower_job(traced, traced.job)
    except Exception as err:  # lowering rules raise many types
        raise NotForHost(err) from err


def float_dtypes(closed: Any) -> Iterator[str]:
    """Yield the dtype of every float that a jaxpr computes with, repeatedly."""
    jaxpr = body_of(closed)
    values = [*jaxpr.invars, *jaxpr.constvars]
    for equation in jaxpr.eqns:
        values += equation.outvars
        for inner in inner_jaxprs(equation):
            yield from float_dtypes(inner)
    for value in values:
        dtype = getattr(value.aval, "dtype", None)
        if dtype is not None and jax.numpy.issubdtype(dtype, np.inexact):
            yield str(dtype)


def product_flops(closed: Any) -> float:
    """Return the FLOPs of matmuls and convolutions in a jaxpr; the body of a `while` counts once.

    XLA's estimate counts the body of a scan once, too, and so only one of a model's layers.
    """
    total = 0.0
    for equation in body_of(closed).eqns:
        inner = sum(map(product_flops, inner_jaxprs(equation)))
        total += inner * (equation.params["length"] if equation.primitive.name == "scan" else 1)
        shapes = [value.aval.shape for value in equation.invars if hasattr(value.aval, "shape")]
        if equation.primitive.name == "dot_general":
            contracted = equation.params["dimension_numbers"][0][0]
            each = math.prod(shapes[0][axis] for axis in contracted)
            total += 2.0 * each * equation.outvars[0].aval.size
        elif equation.primitive.name == "conv_general_dilated":
            features = shapes[1][equation.params["dimension_numbers"].rhs_spec[0]]
            total += 2.0 * math.prod(shapes[1]) / features * equation.outvars[0].aval.size
    return total
