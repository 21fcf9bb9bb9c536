"""Shardings: replicated, mesh axes, or a tree prefix of them, and how nodes are read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Discriminator

from aotbuild.format.words import quote
from aotbuild.manifest.names import reference_problem
from aotbuild.manifest.problems import Steps, describe
from aotbuild.manifest.reading import Fault


@dataclass(frozen=True)
class MeshAxes:
    """What jax calls a PartitionSpec: for each dimension no mesh axis, one, or several."""

    axes: tuple[str | tuple[str, ...] | None, ...]
    form: Literal["spec"] = field(default="spec", repr=False)


@dataclass(frozen=True)
class ShardingTree:
    """A tree prefix: dict key, index or attribute name to its sharding."""

    items: tuple[tuple[str | int, Sharding], ...]
    form: Literal["tree"] = field(default="tree", repr=False)


@dataclass(frozen=True)
class ShardingLike:
    """The tree of shardings that ``module:attr`` is, or returns."""

    ref: str
    form: Literal["like"] = field(default="like", repr=False)


# None is replicated.
Sharding: TypeAlias = (
    Annotated[MeshAxes | ShardingTree | ShardingLike, Discriminator("form")] | None
)


def likes(sharding: Sharding) -> Iterator[str]:
    """Yield what a sharding names, as `module:attr`."""
    if isinstance(sharding, ShardingLike):
        yield sharding.ref
    elif isinstance(sharding, ShardingTree):
        for _, child in sharding.items:
            yield from likes(child)


def axes_of(sharding: Sharding, steps: Steps = ()) -> Iterator[tuple[Steps, str]]:
    """Yield the names of mesh axes in a sharding, with the steps to each."""
    if isinstance(sharding, ShardingTree):
        for key, inner in sharding.items:
            yield from axes_of(inner, (*steps, key))
    elif isinstance(sharding, MeshAxes):
        for index, axis in enumerate(sharding.axes):
            if isinstance(axis, tuple):
                yield from (((*steps, index, i), name) for i, name in enumerate(axis))
            elif axis is not None:
                yield (*steps, index), axis


def read_sharding(value: Any, fault: Fault, steps: Steps = ()) -> Sharding:
    """Return the sharding that YAML says; a fault leaves it replicated."""
    if isinstance(value, list):
        return _mesh_axes(value, fault, steps)
    if isinstance(value, dict):
        return _like(value, fault, steps) or _tree(value, fault, steps)
    if value is not None:
        message = "expected null, a list of mesh axes, a map of shardings, or like: module:attr"
        fault(steps, f"{message}, found {describe(value)}")
    return None


def _like(value: dict[Any, Any], fault: Fault, steps: Steps) -> ShardingLike | None:
    """Return `{like: module:attr}`; a tree may have the key, too, but no text under it."""
    ref = value.get("like")
    if ref is None or isinstance(ref, dict | list):
        return None
    message = reference_problem(ref)
    if message is None and len(value) > 1:
        message = "like: stands alone, without other keys beside it"
    if message:
        fault((*steps, "like"), message)
    return ShardingLike(str(ref))


def _tree(value: dict[Any, Any], fault: Fault, steps: Steps) -> ShardingTree:
    if not value:
        fault(steps, "an empty map shards nothing; write null for replicated")
    items = value.items()
    return ShardingTree(tuple((k, read_sharding(item, fault, (*steps, k))) for k, item in items))


def _mesh_axes(value: list[Any], fault: Fault, steps: Steps) -> MeshAxes:
    axes: list[str | tuple[str, ...] | None] = []
    for index, item in enumerate(value):
        given = item if isinstance(item, list) else [item]
        names = [name for name in given if isinstance(name, str)]
        for i, name in enumerate(given):
            if not isinstance(name, str) and item is not None:
                inner = (i,) if isinstance(item, list) else ()
                message = f"expected the name of a mesh axis, found {describe(name)}"
                fault((*steps, index, *inner), message)
        axes.append(tuple(names) if isinstance(item, list) else next(iter(names), None))
    found = MeshAxes(tuple(axes))
    used = Counter(axis for _, axis in axes_of(found))
    for axis in (axis for axis, count in used.items() if count > 1):
        fault(steps, f"the axis {quote(axis)} is used more than once")
    return found
