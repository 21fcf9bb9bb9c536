"""Trace a job's function once, with its own trees; what follows works on the flat jaxpr."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np
from jax.extend.core import jaxpr_as_fun
from jax.sharding import AxisType, Mesh

from aotbuild.build.jobs import Fed, Job
from aotbuild.errors import TraceRefused
from aotbuild.manifest import ArgSpec
from aotbuild.platforms.building import compiler
from aotbuild.spec.record import Returned, Template
from aotbuild.spec.signature import Function, Signature
from aotbuild.spec.tree import Tree, needs_returned
from aotbuild.spec.wrap import NNX_JIT
from aotbuild.worker import private as jax_private
from aotbuild.worker.avals import (
    describe_result,
    make_avals,
    named_path,
    to_aval,
)
from aotbuild.worker.deferred import of_arrays, result_tree
from aotbuild.worker.feedback import (
    feedback_notes,
    parts_passed_back,
    passed_back,
    with_feedback,
)
from aotbuild.worker.function import Binding, bind, call_arguments, resolve_function
from aotbuild.worker.jaxprs import check_jaxpr, meshes
from aotbuild.worker.like import Dims
from aotbuild.worker.nnx_call import is_module
from aotbuild.worker.purity.second_trace import Purity
from aotbuild.worker.returned import find_reference
from aotbuild.worker.shardings import (
    Spec,
    in_specs,
    make_mesh,
    named_sharding,
    out_specs,
    specs_of_jit,
)
from aotbuild.worker.static_data import describe_arguments, with_aliases
from aotbuild.worker.user_errors import mesh_remedy, user_traceback
from aotbuild.worker.wrap import (
    Wrapped,
    changes,
    has_flax_objects,
    marked,
    result_of,
    traced_function,
    unwrap,
)

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
        wrap, statics = self.wrapped.wrap, tuple(name for name, _ in self.binding.statics)
        function = self.of_values() if wrap else _hashable(self.wrapped.function, self.binding)
        args, kwargs = self.arguments(self.args, self.kwargs, dict(self.binding.statics))
        with in_mesh(self.context):
            function = of_arrays(function, args, kwargs)
            jitted = jax.jit(function, static_argnames=None if wrap else statics)
            return jitted.trace(*args, **kwargs)

    def arguments(
        self, args: dict[str, Any], kwargs: dict[str, Any], statics: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return (args, kwargs) of what is traced; under a wrap it has no static arguments."""
        if self.wrapped.wrap:
            return (*args.values(), *(kwargs[name] for name in sorted(kwargs))), {}
        return call_arguments(self.binding, args, kwargs, statics)

    def of_values(self) -> Any:
        """Return the function as one of the values of a call; static arguments are inside.

        Without a wrap it is that under `nnx.jit`.
        """

        def call(values: tuple[Any, ...]) -> Any:
            named = dict(zip(self.names, values, strict=True))
            args = {name: named.pop(name) for name in self.args}
            statics = dict(self.binding.statics)
            given, keywords = call_arguments(self.binding, args, named, statics)
            return self.wrapped.function(*given, **keywords)

        return traced_function(self.job, self.wrapped, self.names, call)


@dataclass(frozen=True)
class Traced:
    """A function at one signature: its flat jaxpr, its inputs and outputs.

    `leaves` are the flat inputs as `ShapeDtypeStruct`. `paths` are their key paths, each beginning
    with the argument's name; `outputs` and `out_paths` likewise, with None for what `nnx.jit`
    writes into an argument. Where dims are symbolic, the signature is that of the job's row.
    `notes` are for the user. `fed` is what the next call gets, if that has other avals. `again` has
    the index of the input that an output is in the next call, by that of the output. `own_specs`
    are those of the function's own jit, for inputs and outputs.
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
    returned: Returned | None = None
    templates: tuple[Template, ...] = ()
    again: Mapping[int, int] = field(default_factory=dict)
    own_specs: tuple[Sequence[Spec | None], Sequence[Spec | None]] = ((), ())

    @property
    def donated(self) -> tuple[int, ...]:
        """Indices of the leaves of donated arguments."""
        names = set(self.job.function.donate)
        return tuple(i for i, path in enumerate(self.paths) if path[0] in names)

    @property
    def in_specs(self) -> tuple[Spec, ...]:
        """The PartitionSpec of every leaf over the mesh; empty without one."""
        if self.mesh is None:
            return ()
        found, own = in_specs(self.job, self.paths, self.leaves), self.own_specs[0]
        given = self.job.function.in_shardings
        free = [bool(own) and path[0] not in given for path in self.paths]
        return tuple(
            (own[i] or spec) if is_free else spec
            for i, (spec, is_free) in enumerate(zip(found, free, strict=True))
        )

    @property
    def out_specs(self) -> tuple[Spec | None, ...]:
        """The PartitionSpec of every output; None where XLA chooses, and () without a mesh.

        What the next call takes is where that call wants it, if the manifest does not say more.
        """
        if self.mesh is None:
            return ()
        options, ins = self.job.function, self.in_specs
        specs = list(self.own_specs[1] or (None,) * len(self.outputs))
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
    reference = find_reference(job)
    jitted, traced, notes = _trace_over_mesh(jitted)
    described = with_aliases(described, jitted.canonical)
    own = next(meshes(traced.jaxpr), None)
    if own is not None and jitted.mesh is not None and _is_reordered(own, jitted.mesh):
        return trace(job, symbolic, list(own.devices.flat))
    flat = jax.tree_util.tree_flatten_with_path(jitted.canonical)[0]
    result = result_tree(traced, is_plain=jitted.wrapped.wrap is None)
    outputs = jax.tree_util.tree_flatten_with_path(result)[0]
    out_tree = describe_result(job, result, jitted.canonical, reference)
    arguments = {**jitted.args, **jitted.kwargs}
    after = result_of(jitted.wrapped.wrap, arguments, result)
    leaves = tuple(leaf for _, leaf in flat)
    concrete = jax.tree.leaves(jit_job(job).canonical) if job.symbolic else leaves
    order = _leaf_order(jitted, len(leaves))
    closed_jaxpr = _reorder(traced.jaxpr, order, leaves, jitted.context)
    return Traced(
        job=job,
        function=replace(
            jitted.binding.function,
            ignored=described.ignored,
            facts=described.facts,
            aliases=described.aliases,
            references=described.references,
        ),
        signature=Signature(
            described.tree, tuple(map(to_aval, concrete)), jitted.binding.static_values()
        ),
        closed_jaxpr=closed_jaxpr,
        leaves=leaves,
        paths=tuple(named_path(path, jitted.names) for path, _ in flat),
        outputs=tuple(out for _, out in outputs),
        out_paths=tuple(_out_path(path, after is result) for path, _ in outputs),
        out_tree=out_tree,
        returned=reference.returned if reference and needs_returned(out_tree) else None,
        templates=described.templates,
        mesh=jitted.mesh,
        context=jitted.context,
        notes=(*_wrap_notes(jitted), *notes, *feedback_notes(job, arguments, after)),
        fed=passed_back(job, jitted.declared, after),
        again=_again(jitted, outputs, after, after is not result),
        own_specs=specs_of_jit(jitted.function, closed_jaxpr, jitted.mesh),
    )


def _out_path(path: Sequence[Any], is_plain: bool) -> tuple[Any, ...] | None:
    """Return the path of an output in the user's result; None for what `nnx.jit` writes."""
    if is_plain:
        return tuple(path)
    return tuple(path[1:]) if path[0].idx == 0 else None


def _again(
    jitted: Jitted, outputs: Sequence[tuple[Any, Any]], after: Any, is_written: bool
) -> dict[int, int]:
    """Return the index of the input that gets an output in the next call, by that of the output."""
    arguments = {**jitted.args, **dict(sorted(jitted.kwargs.items()))}
    numbers = iter(range(len(jax.tree.leaves(jitted.canonical))))
    places = {name: _numbers(tree, numbers) for name, tree in arguments.items()}
    indices = {id(leaf): index for index, (_, leaf) in enumerate(outputs)}
    return {
        indices[id(leaf)]: place
        for name, part in parts_passed_back(jitted.job, arguments, after, is_written=is_written)
        for leaf, place in zip(jax.tree.leaves(part), places[name], strict=True)
        if id(leaf) in indices
    }


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


def jit_job(job: Job, symbolic: Dims | None = None, devices: Sequence[Any] | None = None) -> Jitted:
    """Import a job's function and bind it to its arguments; TraceRefused if that fails.

    `symbolic` makes a symbolic dim of an expression; without it, all dims have the sizes of the
    job's row. `devices` are those of the mesh, by default this process's.
    """
    function = resolve_function(job.call, f"functions.{job.name}.call")
    wrapped = unwrap(job, function)
    if wrapped.donated and "donate" not in job.function.model_fields_set:
        job = job.with_options(donate=wrapped.donated)
    binding = bind(job, wrapped.function, wrapped.name)
    sized = job if symbolic else job.at()

    def avals(kind: str, specs: Mapping[str, ArgSpec]) -> dict[str, Any]:
        role = f"functions.{job.name}.{kind}"
        wrap = wrapped.wrap
        return {n: make_avals(spec, f"{role}.{n}", symbolic, wrap) for n, spec in specs.items()}

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


def jit_like(traced: Traced, job: Job) -> Jitted:
    """Return a job's function at other sizes than the traced one, over the same mesh."""
    devices = list(traced.mesh.devices.flat) if traced.mesh else None
    return replace(jit_job(job, devices=devices), context=traced.context)


def known_of(job: Job) -> tuple[Function | None, str | None]:
    """Return the function of a job that was refused, and its signature's key, as far as known.

    Its module is not imported again: an import that failed may hang or end the process.
    """
    if job.call.partition(":")[0] not in sys.modules:
        return None, None
    function = None
    try:
        jitted = jit_job(job)
        function = jitted.binding.function
        described = describe_arguments(job, jitted.canonical, jitted.names)
        function = replace(
            function,
            ignored=described.ignored,
            facts=described.facts,
            references=described.references,
        )
        leaves = tuple(map(to_aval, jax.tree.leaves(jitted.canonical)))
        return function, Signature(described.tree, leaves, jitted.binding.static_values()).key()
    except Exception:  # noqa: BLE001 (the job's own error is reported)
        return function, None


@contextlib.contextmanager
def in_mesh(mesh: Mesh | None) -> Iterator[None]:
    """Set the mesh as jax's context, so that PartitionSpecs in the user's code find their axes."""
    with jax.set_mesh(mesh) if mesh else contextlib.nullcontext():
        yield


def _trace_over_mesh(jitted: Jitted) -> tuple[Jitted, Any, tuple[str, ...]]:
    """Trace and check a function in the manifest's mesh; without it, where it makes other meshes.

    jax takes no other mesh inside of its context's. The error is that of the first trace.
    """
    try:
        return jitted, *_trace_and_check(jitted)
    except TraceRefused:
        if jitted.mesh is None:
            raise
        alone = replace(jitted, context=None)
        with contextlib.suppress(TraceRefused):
            traced, notes = _trace_and_check(alone)
            if any(meshes(traced.jaxpr)):
                return alone, traced, notes
        raise


def _is_reordered(own: Mesh, mesh: Mesh) -> bool:
    """Return whether two meshes have the same devices in another order, which jax refuses."""
    mine, others = list(own.devices.flat), list(mesh.devices.flat)
    return mine != others and set(mine) == set(others)


def _trace_and_check(jitted: Jitted) -> tuple[Any, tuple[str, ...]]:
    """Return the trace, and notes about side effects, which a second trace finds."""
    job = jitted.job
    purity = None if job.function.purity == "skip" else Purity(job, jitted.function)

    def trace() -> Any:
        return _trace(jitted)

    traced = purity.trace(trace) if purity else trace()
    check_jaxpr(job, traced.jaxpr)
    return traced, purity.check(traced, trace) if purity else ()


def _wrap_notes(jitted: Jitted) -> Iterator[str]:
    """Yield a note if a wrap was recognized, or if a function needs one to keep what it changes."""
    job, wrapped = jitted.job, jitted.wrapped
    own = wrapped.decorator
    if own.wrap and not job.function.wrap:
        donated = f", which donates {', '.join(wrapped.donated)}" if wrapped.donated else ""
        yield f"{job.call} is decorated with {own.wrap}{donated}, so that is what its calls mean"
    if own.donated and not own.wrap and "donate" not in job.function.model_fields_set:
        yield (
            f"{job.call} is decorated with jax.jit, which donates {', '.join(own.donated)}; calls "
            f"do so with donate: [{', '.join(own.donated)}]"
        )
    if wrapped.wrap is None and has_flax_objects(jitted.canonical, is_module):
        values = (*jitted.args.values(), *jitted.canonical[1].values())
        with in_mesh(jitted.context):
            changed = changes(jitted.of_values(), values, jitted.names)
        if changed:
            yield (
                f"{job.call} changes {changed}, and jax.jit drops that; wrap: nnx.jit writes it "
                "into the caller's objects"
            )


def _trace(jitted: Jitted) -> Any:
    try:
        return jitted.trace()
    except TraceRefused:
        raise
    except (Exception, SystemExit) as err:  # user code may raise anything
        call = jitted.job.call
        msg = f"{call} raised while it was traced\n{user_traceback(err)}\n{_remedy(err)}"
        raise TraceRefused(msg) from err


def _remedy(error: BaseException) -> str:
    for kind, remedy in _REMEDIES:
        if isinstance(error, kind):
            return remedy
    return (
        mesh_remedy(error)
        or "Call it once with jax.eval_shape and these shapes to see the same error."
    )


def _leaf_order(jitted: Jitted, count: int) -> list[int]:
    """Return the index of the canonical leaf for each input of the trace."""
    numbers = iter(range(count))
    args = {name: _numbers(tree, numbers) for name, tree in jitted.args.items()}
    kwargs = {name: _numbers(jitted.kwargs[name], numbers) for name in sorted(jitted.kwargs)}
    # A static argument is None here: that has no leaves, so it is not counted.
    nothing = {name: None for name, _ in jitted.binding.statics}
    call = jitted.arguments(args, kwargs, nothing)
    return list(jax.tree.leaves(call))


def _numbers(tree: Any, numbers: Iterator[int]) -> list[int]:
    """Return the next numbers, one for each leaf."""
    return [next(numbers) for _ in jax.tree.leaves(tree)]


def _reorder(
    closed_jaxpr: Any, order: list[int], leaves: tuple[Any, ...], mesh: Mesh | None
) -> Any:
    """Return the jaxpr with its inputs in the canonical order of the leaves."""
    if order == list(range(len(leaves))):
        return closed_jaxpr
    run = jaxpr_as_fun(closed_jaxpr)
    with in_mesh(mesh):
        return jax.make_jaxpr(lambda *flat: run(*(flat[i] for i in order)))(*leaves)


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
