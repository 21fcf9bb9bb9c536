"""Trace a function once, with its own trees; what follows works on the flat jaxpr."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.extend.core import jaxpr_as_fun
from jax.sharding import AxisType, Mesh

from aotbuild.build.jobs import Job
from aotbuild.build.worker.avals import Dims, make_avals, to_aval
from aotbuild.build.worker.binding import Binding, bind, call_arguments
from aotbuild.build.worker.purity.check import Purity
from aotbuild.build.worker.refuse import check_jaxpr
from aotbuild.build.worker.resolve import resolve_function
from aotbuild.build.worker.trees import describe_arguments, describe_result, named_path
from aotbuild.build.worker.user_errors import user_traceback
from aotbuild.errors import TraceRefused
from aotbuild.spec.function import Function
from aotbuild.spec.signature import Signature
from aotbuild.spec.tree import Tree

_REMEDIES: tuple[tuple[Any, str], ...] = (
    (
        jax.errors.TracerArrayConversionError,
        "numpy was given a traced array: use jax.numpy, or list the argument under static:.",
    ),
    (
        jax.errors.NonConcreteBooleanIndexError,
        "A mask decides the shape of the result: use jax.numpy.where with three arguments.",
    ),
    (
        jax.errors.InconclusiveDimensionOperation,
        "Sizes are symbols here: say what is true of them under export: constraints.",
    ),
    (
        (jax.errors.ConcretizationTypeError, jax.errors.TracerIntegerConversionError),
        "The value decides what is computed: list it under static:, or use lax.cond or lax.select.",
    ),
)


@dataclass(frozen=True)
class Traced:
    """A function at one signature: its flat jaxpr, and what is known of its inputs and outputs.

    `leaves` are the flat inputs as `ShapeDtypeStruct`, `paths` their key paths, the first entry of
    each being the argument's name; `outputs` and `out_paths` likewise. Where dims are symbolic, the
    signature is that of the job's sample. `notes` tell what tracing changed around the function.
    """

    job: Job
    function: Function
    signature: Signature
    closed_jaxpr: Any
    leaves: tuple[Any, ...]
    paths: tuple[tuple[Any, ...], ...]
    outputs: tuple[Any, ...]
    out_paths: tuple[tuple[Any, ...], ...]
    out_tree: Tree
    mesh: Mesh | None
    notes: tuple[str, ...] = ()

    @property
    def donated(self) -> tuple[int, ...]:
        """Indices of the leaves of donated arguments."""
        names = set(self.job.donate)
        return tuple(i for i, path in enumerate(self.paths) if path[0] in names)


def trace(job: Job, symbolic: Dims | None = None) -> Traced:
    """Import, bind and trace; TraceRefused says what cannot be compiled ahead, and why."""
    function = resolve_function(job.call, f"functions.{job.name}.call")
    binding = bind(job, function)
    args = _avals(job, "args", job.args, symbolic)
    kwargs = _avals(job, "kwargs", job.kwargs, symbolic)
    mesh = make_mesh(job)
    traced, notes = _trace_and_check(
        job, function, lambda: _trace(job, function, binding, args, kwargs, mesh)
    )
    canonical = (tuple(args.values()), dict(sorted(kwargs.items())))
    names = (*args, *sorted(kwargs))
    flat = jax.tree_util.tree_flatten_with_path(canonical)[0]
    outputs = jax.tree_util.tree_flatten_with_path(traced.out_info)[0]
    leaves = tuple(leaf for _, leaf in flat)
    order = _leaf_order(binding, args, kwargs, len(leaves))
    in_tree = describe_arguments(job, canonical, names)
    avals = tuple(map(to_aval, _sample_leaves(job) or leaves))
    return Traced(
        job=job,
        function=binding.function,
        signature=Signature(in_tree, avals, binding.static_values()),
        closed_jaxpr=_reorder(traced.jaxpr, order, leaves),
        leaves=leaves,
        paths=tuple(named_path(path, names) for path, _ in flat),
        outputs=tuple(out for _, out in outputs),
        out_paths=tuple(tuple(path) for path, _ in outputs),
        out_tree=describe_result(job, traced.out_info, canonical),
        mesh=mesh,
        notes=notes,
    )


def make_mesh(job: Job) -> Mesh | None:
    """Return the job's mesh over this process's devices, or None without one."""
    if not job.mesh:
        return None
    names = tuple(name for name, _ in job.mesh)
    sizes = tuple(size for _, size in job.mesh)
    devices = np.array(jax.devices()[: int(np.prod(sizes))]).reshape(sizes)
    return Mesh(devices, names, axis_types=(AxisType.Auto,) * len(names))


@contextlib.contextmanager
def in_mesh(mesh: Mesh | None) -> Iterator[None]:
    """Make a mesh the context's, so that PartitionSpecs in the user's code find their axes."""
    with jax.set_mesh(mesh) if mesh else contextlib.nullcontext():
        yield


def _trace_and_check(
    job: Job, function: Any, trace_once: Callable[[], Any]
) -> tuple[Any, tuple[str, ...]]:
    """Return the trace, and notes about side effects, for which it is traced a second time."""
    purity = Purity(job, function) if job.purity == "check" else None
    traced = trace_once()
    check_jaxpr(job, traced.jaxpr)
    return traced, purity.check(traced, trace_once) if purity else ()


def _avals(job: Job, kind: str, specs: Any, symbolic: Dims | None) -> dict[str, Any]:
    role = f"functions.{job.name}.{kind}"
    return {name: make_avals(spec, f"{role}.{name}", symbolic) for name, spec in specs}


def _trace(
    job: Job, function: Any, binding: Binding, args: Any, kwargs: Any, mesh: Mesh | None
) -> Any:
    call_args, call_kwargs = call_arguments(binding, args, kwargs, dict(binding.statics))
    statics = tuple(name for name, _ in binding.statics)
    try:
        with in_mesh(mesh):
            jitted = jax.jit(hashable(function, binding), static_argnames=statics)
            return jitted.trace(*call_args, **call_kwargs)
    except (Exception, SystemExit) as err:  # user code may raise anything
        msg = f"{job.call} raised while it was traced\n{user_traceback(err)}\n{_remedy(err)}"
        raise TraceRefused(msg) from err


def hashable(function: Any, binding: Binding) -> Any:
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


def _remedy(error: BaseException) -> str:
    for kind, remedy in _REMEDIES:
        if isinstance(error, kind):
            return remedy
    return "Call it once with jax.eval_shape and these shapes to see the same error."


def _leaf_order(
    binding: Binding, args: dict[str, Any], kwargs: dict[str, Any], count: int
) -> list[int]:
    """Return, for each input of the trace, the index of the canonical leaf that it is."""
    numbers = iter(range(count))
    numbered_args = {name: _number(tree, numbers) for name, tree in args.items()}
    numbered_kwargs = {name: _number(kwargs[name], numbers) for name in sorted(kwargs)}
    # None has no leaves, so a static argument takes its place without being counted.
    nothing = {name: None for name, _ in binding.statics}
    call = call_arguments(binding, numbered_args, numbered_kwargs, nothing)
    return list(jax.tree.leaves(call))


def _sample_leaves(job: Job) -> tuple[Any, ...]:
    role = f"functions.{job.name}"
    trees = {name: make_avals(spec, f"{role}.{name}") for name, spec in job.sample}
    args = tuple(trees[name] for name, _ in job.args if job.sample)
    kwargs = {name: trees[name] for name, _ in job.kwargs if job.sample}
    return tuple(jax.tree.leaves((args, kwargs)))


def _number(tree: Any, numbers: Iterator[int]) -> Any:
    return jax.tree.map(lambda _: next(numbers), tree)


def _reorder(closed_jaxpr: Any, order: list[int], leaves: tuple[Any, ...]) -> Any:
    """Return the jaxpr with its inputs in the canonical order of the leaves."""
    if order == list(range(len(leaves))):
        return closed_jaxpr
    run = jaxpr_as_fun(closed_jaxpr)
    return jax.make_jaxpr(lambda *flat: run(*(flat[i] for i in order)))(*leaves)
