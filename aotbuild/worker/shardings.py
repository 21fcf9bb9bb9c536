"""The mesh of the manifest, and the PartitionSpecs of each leaf of arguments and results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from aotbuild.build.jobs import Job
from aotbuild.errors import TraceRefused
from aotbuild.format import record
from aotbuild.manifest import MeshAxes, Sharding, ShardingLike, ShardingTree
from aotbuild.worker import private as jax_private
from aotbuild.worker.function import resolve
from aotbuild.worker.user_errors import shorten, user_traceback

Spec = record.PartitionSpec
Paths = Sequence[tuple[Any, ...]]


def make_mesh(job: Job, devices: Sequence[Any] | None = None) -> Mesh | None:
    """Return the job's mesh, by default over this process's devices; None without one."""
    if not job.function.mesh:
        return None
    names, sizes = tuple(job.function.mesh), tuple(job.function.mesh.values())
    chosen = (devices or jax.devices())[: int(np.prod(sizes))]
    explicit = job.function.explicit_axes
    types = tuple(AxisType.Explicit if name in explicit else AxisType.Auto for name in names)
    return Mesh(np.array(chosen).reshape(sizes), names, axis_types=types)


def in_specs(job: Job, paths: Paths, leaves: Sequence[Any]) -> tuple[Spec, ...]:
    """Return the spec of every input leaf; arguments without one are replicated."""
    role = f"functions.{job.name}.in_shardings"
    tree = ShardingTree(tuple(job.function.in_shardings.items()))
    return _spread(role, _resolved(job, tree, role), paths, leaves, job.function.mesh)


def out_specs(job: Job, paths: Paths, outputs: Sequence[Any]) -> tuple[Spec, ...]:
    """Return the spec of every output leaf, as the manifest has them."""
    role = f"functions.{job.name}.out_shardings"
    tree = _resolved(job, job.function.out_shardings, role)
    return _spread(role, tree, paths, outputs, job.function.mesh)


def named_sharding(mesh: Mesh, spec: Spec) -> NamedSharding:
    """Return the jax sharding of a spec."""
    return NamedSharding(mesh, PartitionSpec(*spec))


def specs_of(
    job_name: str,
    given: Sequence[Spec | None],
    shardings: Sequence[Any],
    outputs: Sequence[Any],
    mesh: Mesh,
) -> tuple[Spec, ...]:
    """Return the specs of outputs: given, or chosen by XLA; TraceRefused for another sharding."""
    rows = enumerate(zip(given, shardings, outputs, strict=True))
    return tuple(
        _spec_of(job_name, index, sharding, len(output.shape), mesh) if spec is None else spec
        for index, (spec, sharding, output) in rows
    )


def _spec_of(job_name: str, index: int, sharding: Any, ndim: int, mesh: Mesh) -> Spec:
    spec = _over(sharding, ndim, mesh)
    if spec is not None:
        return spec
    msg = (
        f"functions.{job_name}: XLA chose {sharding} for output {index}, which is no "
        "PartitionSpec over the mesh; give mesh: the axes of the function's own mesh, or give "
        "out_shardings in the manifest"
    )
    raise TraceRefused(msg)


def _over(sharding: Any, ndim: int, mesh: Mesh) -> Spec | None:
    """Return the spec over the axes of a mesh that means the same as a sharding, if any."""
    if sharding.is_fully_replicated:
        return ()
    is_over = isinstance(sharding, NamedSharding) and sharding.mesh.shape == mesh.shape
    spec = sharding.spec if is_over else jax_private.spec_over(mesh, sharding, ndim)
    if spec is None:
        return None
    return tuple(tuple(a) if isinstance(a, tuple | list) else a for a in spec)


def _spread(
    role: str, tree: Sharding, paths: Paths, leaves: Sequence[Any], mesh: dict[str, int]
) -> tuple[Spec, ...]:
    specs, used = [], set()
    for path, leaf in zip(paths, leaves, strict=True):
        spec, steps = _follow(tree, path)
        used.add(steps)
        problem = _misfit(spec, leaf.shape, mesh)
        if problem:
            msg = f"{role}: PartitionSpec{spec} does not fit {_place(path)}: {problem}"
            raise TraceRefused(msg)
        specs.append(spec)
    for steps in _unused(tree, (), used) if paths else ():
        path_text = ".".join(map(str, steps)) or "what like: names"
        known = ", ".join(dict.fromkeys(map(_place, paths)))
        msg = f"{role}: {path_text} leads to no array; the arrays are {shorten(known)}"
        raise TraceRefused(msg)
    return tuple(specs)


def _misfit(spec: Spec, shape: tuple[Any, ...], mesh: dict[str, int]) -> str | None:
    """Return why an array of this shape cannot be split so; symbolic sizes are not checked."""
    if len(spec) > len(shape):
        return f"it has {len(spec)} entries, the array has {len(shape)} dimensions"
    for index, (axes, size) in enumerate(zip(spec, shape, strict=False)):
        names = (axes,) if isinstance(axes, str) else axes or ()
        parts = prod(mesh[name] for name in names)
        if isinstance(size, int) and size % parts:
            split = " and ".join(map(repr, names))
            return f"dimension {index} has size {size}, which {split} would split into {parts}"
    return None


def _place(path: tuple[Any, ...]) -> str:
    """Return where an array is, as `params['w']` or `result[0]`."""
    named = bool(path) and isinstance(path[0], str)
    below = jax.tree_util.keystr(path[1:] if named else path)
    return f"{path[0] if named else 'result'}{below}"


def _follow(tree: Sharding, path: tuple[Any, ...]) -> tuple[Spec, tuple[Any, ...]]:
    """Return the spec that a tree prefix has for the leaf at `path`, and the keys to it."""
    steps: list[Any] = []
    for entry in path:
        if not isinstance(tree, ShardingTree):
            break
        items = dict(tree.items)
        key = _key(entry)
        if key not in items:
            return (), tuple(steps)
        steps.append(key)
        tree = items[key]
    if isinstance(tree, MeshAxes):
        return tuple(tree.axes), tuple(steps)
    return (), tuple(steps)


def _unused(tree: Sharding, steps: tuple[Any, ...], used: set[Any]) -> Iterator[tuple[Any, ...]]:
    """Yield where a sharding leads to no array; of what `like:` named, one has to."""
    if isinstance(tree, _Named):
        below = (each for each in used if each[: len(steps)] == steps and each != steps)
        if tree.items and not any(below):
            yield steps
    elif isinstance(tree, ShardingTree):
        for key, child in tree.items:
            yield from _unused(child, (*steps, key), used)
    elif steps and steps not in used:
        yield steps


def _key(entry: Any) -> Any:
    """Return the manifest's key for an entry of a key path."""
    for attribute in ("key", "idx", "name"):
        if hasattr(entry, attribute):
            return getattr(entry, attribute)
    return entry


# --- shardings that `like:` names -----------------------------------------------------------------

_EXPECTED = (
    "Expected a tree of PartitionSpecs, NamedShardings, None or arrays with shardings, or a "
    "function without arguments that returns one. It is called with the manifest's mesh as the "
    "context."
)
# By `module:attr`, axes and sizes: each function is called once in a process.
_known: dict[Any, Sharding] = {}


@dataclass(frozen=True)
class _Named(ShardingTree):
    """A tree that the user's code made: it may have more than an argument has arrays."""


def _resolved(job: Job, sharding: Sharding, role: str) -> Sharding:
    """Return a sharding with what `like:` names in its place."""
    if isinstance(sharding, ShardingTree):
        items = ((key, _resolved(job, child, f"{role}.{key}")) for key, child in sharding.items)
        return ShardingTree(tuple(items))
    if not isinstance(sharding, ShardingLike):
        return sharding
    key = (sharding.ref, *job.function.mesh.items(), *job.function.explicit_axes)
    if key not in _known:
        _known[key] = _like(job, sharding.ref, role)
    return _known[key]


def _like(job: Job, ref: str, role: str) -> Sharding:
    where = f"{role}: like: {ref}"
    found = resolve(ref, role)
    if callable(found) and jax.tree_util.all_leaves([found]):
        try:
            with jax.set_mesh(make_mesh(job)):
                found = found()
        except BaseException as err:  # user code may raise anything
            msg = f"{where} raised\n{user_traceback(err)}\n{_EXPECTED}"
            raise TraceRefused(msg) from err
    pairs = jax.tree_util.tree_flatten_with_path(found, is_leaf=lambda x: x is None)[0]
    root: dict[Any, Any] = {}
    for path, leaf in pairs:
        spec = _spec_in(leaf, job.function.mesh, f"{where}{jax.tree_util.keystr(path)}")
        if not path:
            return spec
        node = root
        for entry in path[:-1]:
            node = node.setdefault(_key(entry), {})
        node[_key(path[-1])] = spec
    return _named(root)


def _named(nodes: Mapping[Any, Any]) -> _Named:
    items = ((k, _named(v) if isinstance(v, dict) else v) for k, v in nodes.items())
    return _Named(tuple(items))


def _spec_in(leaf: Any, mesh: Mapping[str, int], where: str) -> MeshAxes | None:
    """Return the spec of a leaf; TraceRefused if it is over another mesh, or no sharding."""
    found = getattr(leaf, "sharding", None) if hasattr(leaf, "shape") else leaf
    if isinstance(found, NamedSharding):
        if dict(found.mesh.shape) != dict(mesh) and not found.is_fully_replicated:
            msg = f"{where} is over {found.mesh}; write its axes under mesh:"
            raise TraceRefused(msg)
        found = found.spec
    if isinstance(found, PartitionSpec):
        return MeshAxes(_axes(found, mesh, where))
    is_whole = isinstance(found, jax.sharding.Sharding) and found.is_fully_replicated
    if found is None or is_whole or isinstance(found, bool | int | float | complex):
        return None
    msg = f"{where} is a {type(leaf).__module__}.{type(leaf).__qualname__}\n{_EXPECTED}"
    raise TraceRefused(msg)


def _axes(spec: PartitionSpec, mesh: Mapping[str, int], where: str) -> tuple[Any, ...]:
    axes = tuple(tuple(axis) if isinstance(axis, tuple | list) else axis for axis in spec)
    names = [name for axis in axes for name in (axis if isinstance(axis, tuple) else (axis,))]
    unknown = [name for name in names if name is not None and name not in mesh]
    if unknown:
        msg = f"{where}: the mesh has no axis {unknown[0]!r}, only {', '.join(mesh)}"
        raise TraceRefused(msg)
    return axes
