"""A job's function under `jax.jit`: found, bound to its arguments, in its mesh."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh

from aotbuild.build.jobs import Job
from aotbuild.worker.avals import Dims, make_avals
from aotbuild.worker.binding import Binding, bind, call_arguments
from aotbuild.worker.resolve import resolve_function


@dataclass(frozen=True)
class Jitted:
    """A job's function and what it is traced with.

    `args` and `kwargs` are trees of `ShapeDtypeStruct` by the arguments' names, static ones left
    out.
    """

    job: Job
    function: Any
    binding: Binding
    args: dict[str, Any]
    kwargs: dict[str, Any]
    mesh: Mesh | None

    @property
    def canonical(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The tree (args, kwargs) whose leaves are in the order of the signature."""
        return tuple(self.args.values()), dict(sorted(self.kwargs.items()))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arguments, in the order of `canonical`."""
        return (*self.args, *sorted(self.kwargs))

    def trace(self) -> Any:
        """Return the `jax.stages.Traced` of the function; it may raise anything.

        jax has it already where the function was traced like this before.
        """
        args, kwargs = call_arguments(
            self.binding, self.args, self.kwargs, dict(self.binding.statics)
        )
        statics = tuple(name for name, _ in self.binding.statics)
        with in_mesh(self.mesh):
            jitted = jax.jit(_hashable(self.function, self.binding), static_argnames=statics)
            return jitted.trace(*args, **kwargs)


def jit_job(job: Job, symbolic: Dims | None = None, devices: Sequence[Any] | None = None) -> Jitted:
    """Import a job's function and bind it; TraceRefused says what of it cannot be had.

    `symbolic` turns the expression of a symbolic dim into one; without it, they have the sizes of
    the job's sample. `devices` are those of the mesh, by default this process's.
    """
    function = resolve_function(job.call, f"functions.{job.name}.call")
    binding = bind(job, function)
    sample = dict(job.sample) if symbolic is None else {}

    def avals(kind: str, specs: Any) -> dict[str, Any]:
        role = f"functions.{job.name}.{kind}"
        return {n: make_avals(sample.get(n, s), f"{role}.{n}", symbolic) for n, s in specs}

    args, kwargs = avals("args", job.args), avals("kwargs", job.kwargs)
    return Jitted(job, function, binding, args, kwargs, _make_mesh(job, devices))


@contextlib.contextmanager
def in_mesh(mesh: Mesh | None) -> Iterator[None]:
    """Make a mesh the context's, so that PartitionSpecs in the user's code find their axes."""
    with jax.set_mesh(mesh) if mesh else contextlib.nullcontext():
        yield


def _make_mesh(job: Job, devices: Sequence[Any] | None) -> Mesh | None:
    """Return the job's mesh, or None without one."""
    if not job.mesh:
        return None
    names = tuple(name for name, _ in job.mesh)
    sizes = tuple(size for _, size in job.mesh)
    chosen = (devices or jax.devices())[: int(np.prod(sizes))]
    return Mesh(np.array(chosen).reshape(sizes), names, axis_types=(AxisType.Auto,) * len(names))


def _hashable(function: Any, binding: Binding) -> Any:
    """Return a function that jit can keep: instances that hold arrays, as modules, have no hash."""
    try:
        hash(function)
    except TypeError:

        def call(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        call.__name__ = call.__qualname__ = type(function).__name__
        call.__signature__ = binding.signature  # type: ignore[attr-defined]
        return call
    return function
