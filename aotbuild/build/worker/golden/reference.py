"""The reference: the user's own function under plain `jax.jit`, for CPU, and what it returns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from aotbuild.build import jax_private
from aotbuild.build.jobs import Job
from aotbuild.build.worker.avals import make_avals
from aotbuild.build.worker.binding import Binding, bind, call_arguments
from aotbuild.build.worker.resolve import resolve_function
from aotbuild.build.worker.trace import Traced, hashable, in_mesh
from aotbuild.spec.canonical import sha256_hex
from aotbuild.spec.seeds import sample_indices

_STATIC = object()


@dataclass(frozen=True)
class Reference:
    """A function at one signature, lowered; nothing of it is compiled before `run`."""

    traced: Traced
    binding: Binding
    args: dict[str, Any]
    kwargs: dict[str, Any]
    stage: Any
    lowered: Any

    @property
    def identity(self) -> str:
        """The SHA-256 of the lowered module."""
        return sha256_hex(jax_private.module_bytes(self.lowered))

    @property
    def flops(self) -> float:
        """XLA's estimate; the body of a loop counts once."""
        analysis = self.lowered.cost_analysis() or {}
        return float(analysis.get("flops", 0.0))

    @property
    def result_bytes(self) -> int:
        """The size of the result in bytes; that of typed PRNG keys is not known and left out."""
        leaves = jax.tree.leaves(self.stage.out_info)
        return sum(leaf.size * getattr(leaf.dtype, "itemsize", 0) for leaf in leaves)

    def run(self, leaves: Sequence[Any]) -> list[Any]:
        """Compile it and call it; return samples of each output as numpy arrays."""
        args, kwargs = self._call(leaves)
        with in_mesh(self.traced.mesh):
            outputs = jax.tree.leaves(self.lowered.compile()(*args, **kwargs))
            return [_sample(output) for output in outputs]

    def _call(self, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return leaves as the function takes them, without the static arguments."""
        treedef = jax.tree.structure(canonical(self.args, self.kwargs))
        values, named = jax.tree.unflatten(treedef, leaves)
        args = dict(zip(self.args, values, strict=True))
        statics = {name: _STATIC for name, _ in self.binding.statics}
        given, keywords = call_arguments(self.binding, args, named, statics)
        left = {name: value for name, value in keywords.items() if value is not _STATIC}
        return tuple(value for value in given if value is not _STATIC), left


def lower_reference(traced: Traced) -> Reference:
    """Trace and lower a job's function as `jax.jit` does; symbolic dims have their sample's sizes.

    Where the job was traced with these sizes, jax has the trace already.
    """
    job = traced.job
    function = resolve_function(job.call, f"functions.{job.name}.call")
    binding = bind(job, function)
    args, kwargs = argument_avals(job)
    call_args, call_kwargs = call_arguments(binding, args, kwargs, dict(binding.statics))
    statics = tuple(name for name, _ in binding.statics)
    with in_mesh(traced.mesh):
        jitted = jax.jit(hashable(function, binding), static_argnames=statics)
        stage = jitted.trace(*call_args, **call_kwargs)
        return Reference(traced, binding, args, kwargs, stage, stage.lower())


def argument_avals(job: Job) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the trees of avals of (args, kwargs) by name, none of them symbolic."""
    sample, role = dict(job.sample), f"functions.{job.name}"
    args = {n: make_avals(sample.get(n, spec), f"{role}.args.{n}") for n, spec in job.args}
    kwargs = {n: make_avals(sample.get(n, spec), f"{role}.kwargs.{n}") for n, spec in job.kwargs}
    return args, kwargs


def canonical(args: dict[str, Any], kwargs: dict[str, Any]) -> Any:
    """Return the tree whose leaves are in the order of the signature."""
    return tuple(args.values()), dict(sorted(kwargs.items()))


def float_dtypes(jaxpr: Any) -> Iterator[str]:
    """Yield the dtype of every float that a jaxpr computes with, repeatedly."""
    values = [*jaxpr.invars, *jaxpr.constvars]
    for equation in jaxpr.eqns:
        values += equation.outvars
        for inner in jax_private.sub_jaxprs(equation.params):
            yield from float_dtypes(inner)
    for value in values:
        dtype = getattr(value.aval, "dtype", None)
        if dtype is not None and jax.numpy.issubdtype(dtype, np.inexact):
            yield str(dtype)


def _sample(output: Any) -> Any:
    if jax.numpy.issubdtype(output.dtype, jax.dtypes.prng_key):
        output = jax.random.key_data(output)
    flat = np.asarray(output).reshape(-1)
    return flat[sample_indices(flat.size)]
