"""Trace a function once, with its own trees; what follows works on the flat jaxpr."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh

from aotbuild.build.jobs import Job
from aotbuild.build.worker.avals import Dims, make_avals, to_aval
from aotbuild.build.worker.binding import Binding, bind, call_arguments
from aotbuild.build.worker.refuse import check_jaxpr
from aotbuild.build.worker.resolve import resolve_function, user_traceback
from aotbuild.errors import TraceRefused
from aotbuild.spec.function import Function
from aotbuild.spec.signature import Signature
from aotbuild.spec.tree import Tree, TreeRefused, describe, describe_output


@dataclass(frozen=True)
class Traced:
    """A function at one signature: its flat jaxpr, and what is known of its inputs and outputs.

    `leaves` are the flat inputs as `ShapeDtypeStruct`, `paths` their key paths, the first entry of
    each being the argument's name; `outputs` and `out_paths` likewise. Where dims are symbolic, the
    signature is that of the job's sample.
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
    traced = _trace(job, function, binding, args, kwargs, mesh)
    check_jaxpr(job, traced.jaxpr)
    canonical = (tuple(args.values()), dict(sorted(kwargs.items())))
    names = (*args, *sorted(kwargs))
    flat, in_tree = jax.tree_util.tree_flatten_with_path(canonical)
    outputs, out_tree = jax.tree_util.tree_flatten_with_path(traced.out_info)
    leaves = tuple(leaf for _, leaf in flat)
    order = _leaf_order(binding, args, kwargs, len(leaves))
    return Traced(
        job=job,
        function=binding.function,
        signature=_signature(job, binding, in_tree, _sample_leaves(job) or leaves),
        closed_jaxpr=_reorder(traced.jaxpr, order, leaves),
        leaves=leaves,
        paths=tuple(_named(path, names) for path, _ in flat),
        outputs=tuple(out for _, out in outputs),
        out_paths=tuple(tuple(path) for path, _ in outputs),
        out_tree=_describe_output(job, out_tree, in_tree, traced.out_info),
        mesh=mesh,
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
            jitted = jax.jit(function, static_argnames=statics)
            return jitted.trace(*call_args, **call_kwargs)
    except jax.errors.ConcretizationTypeError as err:
        remedy = (
            "The value decides what is computed: list it under static:, or use lax.cond, "
            "lax.select or lax.fori_loop."
        )
        raise TraceRefused(_failure(job, err, remedy)) from err
    except Exception as err:  # user code may raise anything
        remedy = "Call it once with jax.eval_shape and these shapes to see the same error."
        raise TraceRefused(_failure(job, err, remedy)) from err


def _failure(job: Job, error: BaseException, remedy: str) -> str:
    return f"{job.call} raised while it was traced\n{user_traceback(error)}\n{remedy}"


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
    run = jax.extend.core.jaxpr_as_fun(closed_jaxpr)
    return jax.make_jaxpr(lambda *flat: run(*(flat[i] for i in order)))(*leaves)


def _signature(job: Job, binding: Binding, in_tree: Any, leaves: tuple[Any, ...]) -> Signature:
    try:
        tree = describe(in_tree)
    except TreeRefused as err:
        msg = (
            f"{job.call}: the tree of the arguments holds {err.node}, whose auxiliary data means "
            f"nothing in another process: {err.reason}\n"
            "Pass the arrays only (equinox: eqx.filter or partition; flax: the state), and close "
            "over the rest."
        )
        raise TraceRefused(msg) from err
    return Signature(tree, tuple(map(to_aval, leaves)), binding.static_values())


def _describe_output(job: Job, out_tree: Any, in_tree: Any, out_info: Any) -> Tree:
    try:
        return describe_output(out_tree, in_tree)
    except TreeRefused as err:
        path = _path_of(out_info, err.path)
        msg = (
            f"{job.call} returns {err.node} at result{path}: {err.reason}\n"
            "Return standard containers, namedtuples, registered dataclasses with plain static "
            "fields, or a tree that equals that of an argument."
        )
        raise TraceRefused(msg) from err


def _path_of(tree: Any, indices: tuple[int, ...]) -> str:
    """Return the key path of a node that child indices lead to, as jax prints it."""
    for path, _ in jax.tree_util.tree_flatten_with_path(tree)[0]:
        # Each index is one step down, so the node's path is a prefix of a leaf's below it.
        if _starts_with(tree, path, indices):
            return jax.tree_util.keystr(path[: len(indices)])
    return "".join(f"[{index}]" for index in indices)


def _starts_with(tree: Any, path: tuple[Any, ...], indices: tuple[int, ...]) -> bool:
    node = jax.tree.structure(tree)
    first = 0
    for index in indices:
        first += sum(child.num_leaves for child in node.children()[:index])
        node = node.children()[index]
    leaf = jax.tree_util.tree_flatten_with_path(tree)[0][first : first + 1]
    return bool(leaf) and leaf[0][0] == path


def _named(path: tuple[Any, ...], names: tuple[str, ...]) -> tuple[Any, ...]:
    """Return a leaf's path with the argument's name in place of its two leading entries."""
    kind, entry, *rest = path
    name = names[entry.idx] if kind.idx == 0 else entry.key
    return (name, *rest)
