"""Trace a job's function once, with its own trees; what follows works on the flat jaxpr."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np
from jax.extend.core import jaxpr_as_fun
from jax.sharding import AxisType, Mesh

from aotbuild.build.jobs import Fed, Job
from aotbuild.errors import TraceRefused
from aotbuild.format.record import Template
from aotbuild.format.signature import Function, Signature
from aotbuild.format.tree import Tree
from aotbuild.platforms.building import compiler
from aotbuild.worker import private as jax_private
from aotbuild.worker.feedback import passed_back, places_again
from aotbuild.worker.jaxprs import body_of, check_jaxpr, meshes
from aotbuild.worker.jitted import Jitted, in_mesh, jit_job
from aotbuild.worker.leaves import check_results, describe_result, named_path, result_tree, to_aval
from aotbuild.worker.shardings import Spec, in_specs, out_specs
from aotbuild.worker.specs import Dims
from aotbuild.worker.static_data import describe_arguments
from aotbuild.worker.user_errors import remedy, user_traceback
from aotbuild.worker.wrap import result_of


@dataclass(frozen=True)
class Traced:
    """A function at one signature: its flat jaxpr, its inputs and outputs.

    `leaves` are the flat inputs as `ShapeDtypeStruct`. `paths` are their key paths, each beginning
    with the argument's name; `outputs` and `out_paths` likewise, with None for what `nnx.jit`
    writes into an argument. Where dims are symbolic, the signature is that of the job's row.
    `notes` are for the user. `fed` is what the next call gets, if that has other avals. `again` has
    the input of that call for each output that is one.
    """

    job: Job
    function: Function
    signature: Signature
    closed_jaxpr: Any
    leaves: tuple[Any, ...]
    paths: tuple[tuple[Any, ...], ...]
    outputs: tuple[Any, ...]
    out_paths: tuple[tuple[Any, ...] | None, ...]
    out_tree: Tree
    mesh: Mesh | None
    context: Mesh | None
    notes: tuple[str, ...] = ()
    fed: Fed | None = None
    templates: tuple[Template, ...] = ()
    again: Mapping[int, int] = field(default_factory=dict)

    @property
    def donated(self) -> tuple[int, ...]:
        """Indices of the leaves of donated arguments."""
        names = set(self.job.function.donate)
        return tuple(i for i, path in enumerate(self.paths) if path[0] in names)

    @property
    def in_specs(self) -> tuple[Spec, ...]:
        """The PartitionSpec of every leaf over the mesh; empty without one."""
        return () if self.mesh is None else in_specs(self.job, self.paths, self.leaves)

    @property
    def out_specs(self) -> tuple[Spec | None, ...]:
        """The PartitionSpec of every output; None where XLA chooses, and () without a mesh.

        What the next call takes is where that call wants it, if the manifest does not say more.
        """
        if self.mesh is None:
            return ()
        options, ins = self.job.function, self.in_specs
        specs: list[Spec | None] = [None] * len(self.outputs)
        if not options.explicit_axes:
            for output, leaf in self.again.items():
                specs[output] = ins[leaf]
        if options.out_shardings_given:
            results = [(i, path) for i, path in enumerate(self.out_paths) if path is not None]
            outputs = [self.outputs[i] for i, _ in results]
            given = out_specs(self.job, [path for _, path in results], outputs)
            for (i, _), spec in zip(results, given, strict=True):
                specs[i] = spec
        return tuple(specs)


def jit_like(traced: Traced, job: Job) -> Jitted:
    """Return a job's function at other sizes than the traced one, over the same mesh."""
    devices = list(traced.mesh.devices.flat) if traced.mesh else None
    return replace(jit_job(job, devices=devices), context=traced.context)


class ReadsKeptTracer(TraceRefused):
    """A function reads a traced value that another trace left in an object or a variable."""


def trace_job(job: Job, symbolic: Dims | None) -> Traced:
    """Trace a job on this process's CPU devices, or over those it compiles for if it asks."""
    try:
        return trace(job, symbolic)
    except TraceRefused as err:
        if not asks_for_device(job, err):
            raise
    # Where kernels ask for their device, the units of a job are all for the same one.
    target, hardware = job.targets[0], job.hardware[0]
    return trace_on(job, compiler(target.platform).devices(target, hardware, jax_private))


def trace(job: Job, symbolic: Dims | None = None, devices: Sequence[Any] | None = None) -> Traced:
    """Import, bind and trace a function; TraceRefused says why it cannot be compiled ahead.

    `devices` are those of the mesh, by default this process's.
    """
    jitted = jit_job(job, symbolic, devices)
    job = jitted.job
    # Before the trace: it may change what the arguments' functions close over.
    described = describe_arguments(job, jitted.canonical, jitted.names)
    jitted, traced = _trace_over_mesh(jitted)
    flat = jax.tree_util.tree_flatten_with_path(jitted.canonical)[0]
    result = result_tree(traced, job.call)
    outputs = jax.tree_util.tree_flatten_with_path(result)[0]
    check_results(job.call, outputs, traced.jaxpr.out_avals)
    out_tree = describe_result(job, result, jitted.canonical)
    arguments = {**jitted.args, **jitted.kwargs}
    after = result_of(jitted.wrapped.wrap, arguments, result)
    again = places_again(
        job,
        arguments,
        jitted.places(),
        [leaf for _, leaf in outputs],
        after,
        is_written=after is not result,
    )
    leaves = tuple(leaf for _, leaf in flat)
    concrete = jax.tree.leaves(jit_job(job).canonical) if job.symbolic else leaves
    statics = jitted.binding.static_values()
    return Traced(
        job=job,
        function=replace(
            jitted.binding.function, ignored=described.ignored, references=described.references
        ),
        signature=Signature(described.tree, tuple(map(to_aval, concrete)), statics),
        closed_jaxpr=_reordered(traced.jaxpr, jitted.leaf_order(), leaves, jitted.context),
        leaves=leaves,
        paths=tuple(named_path(path, jitted.names) for path, _ in flat),
        outputs=tuple(out for _, out in outputs),
        out_paths=tuple(_out_path(path, is_plain=after is result) for path, _ in outputs),
        out_tree=out_tree,
        templates=described.templates,
        mesh=jitted.mesh,
        context=jitted.context,
        fed=passed_back(job, jitted.declared, after),
        again=again,
    )


def _out_path(path: Sequence[Any], *, is_plain: bool) -> tuple[Any, ...] | None:
    """Return the path of an output in the user's result; None for what `nnx.jit` writes."""
    if is_plain:
        return tuple(path)
    return tuple(path[1:]) if path[0].idx == 0 else None


def trace_on(job: Job, devices: Sequence[Any]) -> Traced:
    """Trace a job over these GPUs or TPUs."""
    if job.function.mesh:
        return trace(job, devices=devices)
    mesh = Mesh(np.array([devices[0]]), ("_device",), axis_types=(AxisType.Auto,))
    with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
        return trace(job)


def asks_for_device(job: Job, error: TraceRefused) -> bool:
    """Return whether a kernel of a job for a GPU or TPU failed because it asked for its device."""
    target = job.targets[0]
    return not target.is_portable and compiler(target.platform).asks_for_device(error)


def _trace_over_mesh(jitted: Jitted) -> tuple[Jitted, Any]:
    """Trace and check a function in the manifest's mesh; without it, where it makes other meshes.

    jax takes no other mesh inside of its context's. The error is that of the first trace.
    """
    try:
        return jitted, _trace_and_check(jitted)
    except TraceRefused:
        if jitted.mesh is None:
            raise
        alone = replace(jitted, context=None)
        with contextlib.suppress(TraceRefused):
            traced = _trace_and_check(alone)
            if any(meshes(traced.jaxpr)):
                return alone, traced
        raise


def _trace_and_check(jitted: Jitted) -> Any:
    """Return the `jax.stages.Traced`; TraceRefused if its jaxpr cannot be compiled."""
    job = jitted.job
    try:
        traced = jitted.trace()
    except TraceRefused:
        raise
    except BaseException as err:  # user code may raise anything
        symbols = ", ".join(n for n, size in job.symbolic.items() if isinstance(size, str))
        what = remedy(err, symbols)
        msg = f"{job.call} raised while it was traced\n{user_traceback(err)}\n{what}"
        raise TraceRefused(msg) from err
    if len(body_of(traced.jaxpr).invars) > jax_private.argument_leaves(traced):
        msg = (
            f"{job.call} reads a traced value that another trace left\n"
            "A traced value means nothing after its trace. Return it, and keep it outside the "
            "function (functools.cache and cached_property keep what they return)."
        )
        raise ReadsKeptTracer(msg)
    check_jaxpr(job, traced.jaxpr)
    return traced


def _reordered(
    closed_jaxpr: Any, order: list[int], leaves: tuple[Any, ...], mesh: Mesh | None
) -> Any:
    """Return the jaxpr with its inputs in the canonical order of the leaves."""
    if order == list(range(len(leaves))):
        return closed_jaxpr
    run = jaxpr_as_fun(closed_jaxpr)
    with in_mesh(mesh):
        return jax.make_jaxpr(lambda *flat: run(*(flat[i] for i in order)))(*leaves)
