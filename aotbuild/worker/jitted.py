"""A job's function with its arguments, as `jax.jit` gets them."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
from jax.sharding import Mesh

from aotbuild.build.jobs import Job
from aotbuild.format.wrap import NNX_JIT
from aotbuild.manifest import ArgSpec
from aotbuild.worker.feedback import with_feedback
from aotbuild.worker.function import Binding, bind, call_arguments, resolve_function
from aotbuild.worker.leaves import named_path
from aotbuild.worker.shardings import in_specs, make_mesh, named_sharding
from aotbuild.worker.specs import Dims, make_avals
from aotbuild.worker.wrap import Wrapped, has_flax_objects, marked, traced_function, unwrap


@dataclass(frozen=True)
class Jitted:
    """A job's function and what it is traced with.

    `args` and `kwargs` are trees of `ShapeDtypeStruct` by the arguments' names, without the static
    ones. `declared` are both as the manifest has them, before `feedback:` changes them. Under a
    wrap, what is no array in them is a marker. `mesh` is the manifest's, `context` the one that jax
    has as its context: none, where the function makes others itself.
    """

    job: Job
    function: Any
    wrapped: Wrapped
    binding: Binding
    args: dict[str, Any]
    kwargs: dict[str, Any]
    declared: dict[str, Any]
    mesh: Mesh | None
    context: Mesh | None

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

        jax has it cached if the function was traced like this before.
        """
        args, kwargs = self.arguments(self.args, self.kwargs, dict(self.binding.statics))
        statics: tuple[str, ...] = ()
        if self.wrapped.wrap:
            function = self._of_values()
        else:
            function = _hashable(self.wrapped.function, self.binding)
            statics = tuple(name for name, _ in self.binding.statics)
        with in_mesh(self.context):
            jitted = jax.jit(function, static_argnames=statics or None)
            # jax copies the attributes of a function onto it, and a decorator may have set `trace`.
            return type(jitted).trace(jitted, *args, **kwargs)

    def arguments(
        self, args: dict[str, Any], kwargs: dict[str, Any], statics: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return (args, kwargs) of what is traced; under a wrap it has no static arguments."""
        if self.wrapped.wrap:
            return (*args.values(), *(kwargs[name] for name in sorted(kwargs))), {}
        return call_arguments(self.binding, args, kwargs, statics)

    def _of_values(self) -> Any:
        """Return the function as one of the values of a call; static arguments are inside."""

        def call(values: tuple[Any, ...]) -> Any:
            named = dict(zip(self.names, values, strict=True))
            args = {name: named.pop(name) for name in self.args}
            statics = dict(self.binding.statics)
            given, keywords = call_arguments(self.binding, args, named, statics)
            return self.wrapped.function(*given, **keywords)

        return traced_function(self.job, self.wrapped, self.names, call)

    def leaf_order(self) -> list[int]:
        """Return the index of the canonical leaf for each input of the trace."""
        places = self.places()
        args = {name: places[name] for name in self.args}
        kwargs = {name: places[name] for name in self.kwargs}
        # A static argument is None here: that has no leaves, so it is not counted.
        nothing = {name: None for name, _ in self.binding.statics}
        return list(jax.tree.leaves(self.arguments(args, kwargs, nothing)))

    def places(self) -> dict[str, list[int]]:
        """Return the indices of the canonical leaves of each argument."""
        numbers = itertools.count()
        args, kwargs = self.canonical
        trees = dict(zip(self.names, (*args, *kwargs.values()), strict=True))
        return {
            name: [next(numbers) for _ in jax.tree.leaves(tree)] for name, tree in trees.items()
        }


def jit_job(job: Job, symbolic: Dims | None = None, devices: Sequence[Any] | None = None) -> Jitted:
    """Import a job's function and bind it to its arguments; TraceRefused if that fails.

    `symbolic` makes a symbolic dim of an expression; without it, all dims have the sizes of the
    job's row. `devices` are those of the mesh, by default this process's.
    """
    function = resolve_function(job.call, f"functions.{job.name}.call")
    wrapped = unwrap(job, function)
    stated = job.function.model_fields_set
    job = job.with_options(**{n: v for n, v in wrapped.options.items() if n not in stated})
    binding = bind(job, wrapped.function, wrapped.name)
    sized = job if symbolic else job.at()

    def avals(kind: str, specs: Mapping[str, ArgSpec]) -> dict[str, Any]:
        role = f"functions.{job.name}.{kind}"
        wrap, is_sharded = wrapped.wrap, bool(job.function.in_shardings)
        return {
            name: make_avals(spec, f"{role}.{name}", symbolic, wrap, is_sharded=is_sharded)
            for name, spec in specs.items()
        }

    args, kwargs = avals("args", sized.args), avals("kwargs", sized.kwargs)
    if wrapped.name == NNX_JIT and not has_flax_objects((args, kwargs)):
        # Calls mean no more than under jax.jit, so they need not import flax.
        binding = bind(job, wrapped.function)
    named = marked(wrapped.wrap, {**args, **dict(sorted(kwargs.items()))})
    args = {name: named.pop(name) for name in args}
    given = with_feedback(job, args), with_feedback(job, named)
    mesh = make_mesh(job, devices)
    jitted = Jitted(job, function, wrapped, binding, *given, {**args, **named}, mesh, mesh)
    return _sharded(jitted) if job.function.explicit_axes else jitted


def _sharded(jitted: Jitted) -> Jitted:
    """Give every leaf its sharding, which is a part of its type where axes are explicit."""
    flat, treedef = jax.tree_util.tree_flatten_with_path(jitted.canonical)
    paths = tuple(named_path(path, jitted.names) for path, _ in flat)
    leaves = [leaf for _, leaf in flat]
    placed = [
        leaf.update(sharding=named_sharding(jitted.mesh, spec))
        for leaf, spec in zip(leaves, in_specs(jitted.job, paths, leaves), strict=True)
    ]
    args, kwargs = jax.tree.unflatten(treedef, placed)
    return replace(jitted, args=dict(zip(jitted.args, args, strict=True)), kwargs=kwargs)


@contextlib.contextmanager
def in_mesh(mesh: Mesh | None) -> Iterator[None]:
    """Set the mesh as jax's context, so that PartitionSpecs in the user's code find their axes."""
    with jax.set_mesh(mesh) if mesh else contextlib.nullcontext():
        yield


def _hashable(function: Any, binding: Binding) -> Any:
    """Return a function that jit can cache: instances that hold arrays have no hash."""
    try:
        hash(function)
    except TypeError:

        def call(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        call.__name__ = call.__qualname__ = type(function).__name__
        call.__signature__ = binding.signature  # type: ignore[attr-defined]
        return call
    return function
