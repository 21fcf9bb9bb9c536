"""The reference: the user's function under plain `jax.jit` on a CPU, and the inputs it is given.

Inputs are those of `verify: inputs:`, checked against the avals, or seeded ones.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from aotbuild.build.jobs import Job
from aotbuild.errors import TraceRefused
from aotbuild.format.aval import Aval
from aotbuild.format.canonical import canonical_digest, sha256_hex
from aotbuild.format.dtypes import DTYPES
from aotbuild.format.golden import seeded, stored_shape
from aotbuild.format.words import did_you_mean
from aotbuild.worker import private as jax_private
from aotbuild.worker.function import resolve_function
from aotbuild.worker.jaxprs import body_of, inner_jaxprs, is_integer, takes_indices
from aotbuild.worker.jitted import Jitted, in_mesh
from aotbuild.worker.leaves import array_digest, as_numpy, is_key_dtype, to_aval
from aotbuild.worker.lower import Lowered
from aotbuild.worker.trace import Traced, jit_like
from aotbuild.worker.user_errors import shorten, user_traceback
from aotbuild.worker.wrap import marked

_STATIC = object()


class TakesIndices(TraceRefused):
    """A kernel takes integers that nobody has given, and seeded ones may be no indices."""

    def __init__(self) -> None:
        super().__init__(
            "a kernel outside of XLA takes integers, and reads memory where they point if they are "
            "indices; verify: {inputs: module:function} gives valid ones"
        )


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


# Bytes of the inputs given for one signature; they go into the wheel.
GIVEN_LIMIT = 64 << 20
_SCALARS = {bool: np.bool_, int: np.integer, float: np.floating, complex: np.complexfloating}


def given_leaves(jitted: Jitted) -> dict[int, Any]:
    """Call `verify: inputs:`; return the leaves that it gives, as numpy arrays, by index.

    Typed PRNG keys become their data. TraceRefused names a leaf that does not match its aval.
    """
    job = jitted.job
    if job.function.verify.inputs is None:
        return {}
    role = f"functions.{job.name}.verify.inputs: {job.function.verify.inputs}"
    found = _call(role, jitted)
    _check_names(role, found, {**jitted.args, **jitted.kwargs})
    leaves = dict(_leaves(role, found, jitted))
    total = sum(array.nbytes for array in leaves.values())
    if total > GIVEN_LIMIT:
        msg = (
            f"{role} gave {total:,} bytes\n  expected at most {GIVEN_LIMIT:,} bytes for one "
            "signature: they are kept in the wheel\nLeave large arguments out; they are seeded."
        )
        raise TraceRefused(msg)
    return leaves


def check_seeds(traced: Traced, given: Mapping[int, Any]) -> None:
    """Raise TakesIndices if seeded integers may lead a kernel out of its memory."""
    leaves = enumerate(traced.signature.leaves)
    is_seeded = any(is_integer(aval.dtype) and leaf not in given for leaf, aval in leaves)
    if is_seeded and takes_indices(traced.closed_jaxpr):
        raise TakesIndices


def as_argument(leaf: int, aval: Aval, given: Mapping[int, Any]) -> Any:
    """Return a leaf as the function takes it: the given array, or a seeded one."""
    array = given[leaf] if leaf in given else seeded(leaf, aval)
    if key := DTYPES[aval.dtype].key:
        return jax.random.wrap_key_data(array, impl=key)
    return array


def executable_inputs(lowered: Lowered, given: Mapping[int, Any]) -> list[Any]:
    """Return numpy arrays for an executable: constants first, without leaves that it does not take.

    Leaves are those that golden outputs are computed from; `given` is what `given_leaves` returns.
    """
    constants = [as_numpy(constant) for constant in lowered.constants]
    inputs: list[Any] = []
    for index in lowered.kept:
        leaf = index - len(constants)
        if leaf < 0:
            inputs.append(constants[index])
        else:
            aval = lowered.traced.signature.leaves[leaf]
            inputs.append(given[leaf] if leaf in given else seeded(leaf, aval))
    return inputs


def donated_inputs(lowered: Lowered) -> tuple[int, ...]:
    """Return which of those inputs the executable may overwrite, by their positions."""
    before, donated = len(lowered.constants), lowered.traced.donated
    return tuple(at for at, index in enumerate(lowered.kept) if index - before in donated)


def _call(role: str, jitted: Jitted) -> dict[str, Any]:
    job = jitted.job
    inputs = str(job.function.verify.inputs)
    function = resolve_function(inputs, f"functions.{job.name}.verify.inputs")
    values = {**job.dims, **dict(jitted.binding.statics)}
    try:
        found = function(**_accepted(function, values))
        jax.block_until_ready(found)
    except BaseException as err:  # user code may raise anything
        taken = ", ".join(f"{name}={shorten(repr(value))}" for name, value in values.items())
        msg = f"{role} raised; it is offered ({taken})\n{user_traceback(err)}"
        raise TraceRefused(msg) from err
    if not isinstance(found, dict):
        kind = f"{type(found).__module__}.{type(found).__qualname__}"
        msg = f"{role} returned a {kind}; expected a dict of arguments by name"
        raise TraceRefused(msg)
    return found


def _accepted(function: Any, values: dict[str, Any]) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind == inspect.Parameter.VAR_KEYWORD for p in parameters):
        return values
    names = {p.name for p in parameters if p.kind != inspect.Parameter.POSITIONAL_ONLY}
    return {name: value for name, value in values.items() if name in names}


def _check_names(role: str, found: dict[str, Any], known: dict[str, Any]) -> None:
    for name in found:
        if name not in known:
            hint = did_you_mean(str(name), known)
            msg = f"{role} gave {name!r}, which is no argument in args or kwargs{hint}"
            raise TraceRefused(msg)


def _leaves(role: str, found: dict[str, Any], jitted: Jitted) -> Iterator[tuple[int, Any]]:
    args, kwargs = jitted.canonical
    index, found = 0, _with_markers(found, jitted)
    for name, called in zip(jitted.names, [*args, *kwargs.values()], strict=True):
        avals, expected = map(to_aval, jax.tree.leaves(called)), jitted.declared[name]
        wanted = jax.tree_util.tree_flatten_with_path(expected)[0]
        if name in found:
            _check_tree(f"{role}: {name}", expected, found[name])
            values = jax.tree.leaves(found[name])
            for offset, ((path, leaf), aval) in enumerate(zip(wanted, avals, strict=True)):
                place = f"{role}: {name}{jax.tree_util.keystr(path)}"
                array = _array(place, to_aval(leaf), values[offset])
                # What `feedback:` passes back has other dtypes than the first call's argument.
                dtype = seeded(0, Aval((0,), aval.dtype)).dtype
                yield index + offset, array.astype(dtype, copy=False)
        index += len(wanted)


def _with_markers(found: dict[str, Any], jitted: Jitted) -> dict[str, Any]:
    """Return given arguments as the function is traced with them."""
    wrap, named = jitted.wrapped.wrap, {**jitted.args, **jitted.kwargs}
    if wrap is None:
        return found
    # The positions of Variables count all arguments.
    values = wrap.restore(tuple(named[name] for name in jitted.names))
    every = {**dict(zip(jitted.names, values, strict=True)), **found}
    return {name: value for name, value in marked(wrap, every).items() if name in found}


def _check_tree(place: str, expected: Any, found: Any) -> None:
    want, have = jax.tree.structure(expected), jax.tree.structure(found)
    if want != have:
        msg = (
            f"{place} is another tree\n  expected {shorten(str(want))}\n"
            f"  found    {shorten(str(have))}"
        )
        raise TraceRefused(msg)


def _array(place: str, aval: Aval, value: Any) -> Any:
    array = _as_argument(aval, value)
    shape, dtype = stored_shape(aval), seeded(0, Aval((0,), aval.dtype)).dtype
    if array is None or array.shape != shape or array.dtype != dtype:
        have = f"{type(value).__module__}.{type(value).__qualname__}"
        if hasattr(value, "dtype"):
            have = f"{value.dtype}{list(value.shape)}"
        elif array is not None:
            have = f"{array.dtype}{list(array.shape)}"
        msg = f"{place}\n  expected {aval}\n  found    {have}"
        raise TraceRefused(msg)
    return array


def _as_argument(aval: Aval, value: Any) -> Any:
    """Return a value as jit takes it: without x64, 64 bits become 32. None if it is no array."""
    dtype = getattr(value, "dtype", None)
    if dtype is not None and is_key_dtype(dtype):
        return as_numpy(value) if str(dtype) == aval.dtype else None
    if DTYPES[aval.dtype].key:
        return None
    if type(value) in _SCALARS:
        wanted = jax.numpy.dtype(aval.dtype)
        fits = jax.numpy.issubdtype(wanted, _SCALARS[type(value)])
        return np.asarray(value, wanted if fits else None)
    if dtype is None:
        return None
    array = np.asarray(value)
    return array.astype(jax.dtypes.canonicalize_dtype(array.dtype), copy=False)
