"""The manifest's PartitionSpecs, for each leaf of arguments and results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from aotbuild.build.jobs import Job
from aotbuild.errors import TraceRefused
from aotbuild.manifest import PartitionSpec as ManifestSpec
from aotbuild.manifest import Sharding, ShardingTree
from aotbuild.spec import record
from aotbuild.worker import private as jax_private
from aotbuild.worker.user_errors import shorten

Spec = record.PartitionSpec
Paths = Sequence[tuple[Any, ...]]


def in_specs(job: Job, paths: Paths, leaves: Sequence[Any]) -> tuple[Spec, ...]:
    """Return the spec of every input leaf; arguments without one are replicated."""
    role = f"functions.{job.name}.in_shardings"
    trees = [ShardingTree(tuple(job.function.in_shardings.items()))] * len(paths)
    return _spread(role, trees, paths, leaves, job.function.mesh)


def out_specs(job: Job, paths: Paths, outputs: Sequence[Any]) -> tuple[Spec, ...] | None:
    """Return the spec of every output leaf; None if the manifest leaves them to XLA."""
    if not job.function.out_shardings_given:
        return None
    role = f"functions.{job.name}.out_shardings"
    trees = [job.function.out_shardings] * len(paths)
    return _spread(role, trees, paths, outputs, job.function.mesh)


def named_sharding(mesh: Mesh, spec: Spec) -> NamedSharding:
    """Return the jax sharding of a spec."""
    return NamedSharding(mesh, PartitionSpec(*spec))


def specs_of(
    job_name: str, shardings: Sequence[Any], outputs: Sequence[Any], mesh: Mesh
) -> tuple[Spec, ...]:
    """Return the specs that XLA chose for outputs; TraceRefused for any other sharding."""
    pairs = zip(shardings, outputs, strict=True)
    return tuple(_spec_of(job_name, i, s, len(o.shape), mesh) for i, (s, o) in enumerate(pairs))


def _spec_of(job_name: str, index: int, sharding: Any, ndim: int, mesh: Mesh) -> Spec:
    if sharding.is_fully_replicated:
        return ()
    is_over = isinstance(sharding, NamedSharding) and sharding.mesh.shape == mesh.shape
    spec = sharding.spec if is_over else jax_private.spec_over(mesh, sharding, ndim)
    if spec is not None:
        return tuple(tuple(a) if isinstance(a, tuple | list) else a for a in spec)
    msg = (
        f"functions.{job_name}: XLA chose {sharding} for output {index}, which is no "
        "PartitionSpec over the mesh; give mesh: the axes of the function's own mesh, or give "
        "out_shardings in the manifest"
    )
    raise TraceRefused(msg)


def _spread(
    role: str,
    trees: Sequence[Sharding],
    paths: Paths,
    leaves: Sequence[Any],
    mesh: dict[str, int],
) -> tuple[Spec, ...]:
    specs, used = [], set()
    for tree, path, leaf in zip(trees, paths, leaves, strict=True):
        spec, steps = _follow(tree, path)
        used.add(steps)
        problem = _misfit(spec, leaf.shape, mesh)
        if problem:
            msg = f"{role}: PartitionSpec{spec} does not fit {_place(path)}: {problem}"
            raise TraceRefused(msg)
        specs.append(spec)
    for steps in _ends(trees[0], ()) if trees else ():
        if not any(step[: len(steps)] == steps for step in used):
            path_text = ".".join(map(str, steps))
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
    if isinstance(tree, ManifestSpec):
        return tuple(tree.axes), tuple(steps)
    return (), tuple(steps)


def _ends(tree: Sharding, steps: tuple[Any, ...]) -> Iterable[tuple[Any, ...]]:
    if isinstance(tree, ShardingTree):
        for key, child in tree.items:
            yield from _ends(child, (*steps, key))
    elif steps:
        yield steps


def _key(entry: Any) -> Any:
    """Return the manifest's key for an entry of a key path."""
    for attribute in ("key", "idx", "name"):
        if hasattr(entry, attribute):
            return getattr(entry, attribute)
    return entry
