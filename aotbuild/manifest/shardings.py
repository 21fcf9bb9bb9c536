"""Shardings: replicated, mesh axes, or a tree prefix of them, and how nodes are read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeAlias

from pydantic import Discriminator

from aotbuild.format.words import did_you_mean, quote
from aotbuild.manifest.names import reference_problem
from aotbuild.manifest.nodes import (
    ListNode,
    MapNode,
    Node,
    Report,
    ScalarNode,
    Steps,
    describe,
)


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


@dataclass(frozen=True)
class ShardingReader:
    """Reads the shardings of one function; `mesh` is None where it is unknown."""

    report: Report
    mesh: Mapping[str, int] | None

    def read(self, node: Node, steps: Steps) -> Sharding:
        """Return the sharding in a node; a problem leaves it replicated."""
        if isinstance(node, ListNode):
            return self._spec(node, steps)
        if isinstance(node, MapNode):
            return self._like(node, steps) or self._tree(node, steps)
        if node.value is not None:
            message = "expected null, a list of mesh axes, a map of shardings, or like: module:attr"
            self.report(node.mark, steps, f"{message}, found {describe(node)}")
        return None

    def _like(self, node: MapNode, steps: Steps) -> ShardingLike | None:
        """Return `{like: module:attr}`; a tree may have the key, too, but no text under it."""
        found = {key.value: value for key, value in node.entries}.get("like")
        if not isinstance(found, ScalarNode) or found.value is None:
            return None
        message = reference_problem(found.value)
        if message is None and len(node.entries) > 1:
            message = "like: stands alone, without other keys beside it"
        if message:
            self.report(found.mark, (*steps, "like"), message)
        return ShardingLike(str(found.value))

    def _tree(self, node: MapNode, steps: Steps) -> Sharding:
        if not node.entries:
            self.report(node.mark, steps, "an empty map shards nothing; write null for replicated")
        return ShardingTree(
            tuple(
                (key.value, self.read(value, (*steps, key.value)))
                for key, value in node.entries
                if isinstance(key.value, str | int)
            )
        )

    def _spec(self, node: ListNode, steps: Steps) -> MeshAxes:
        axes = tuple(self._element(item, (*steps, i)) for i, item in enumerate(node.items))
        used = Counter(name for axis in axes for name in _names_of(axis))
        for name in (name for name, count in used.items() if name and count > 1):
            self.report(node.mark, steps, f"the axis {quote(name)} is used more than once")
        return MeshAxes(axes)

    def _element(self, node: Node, steps: Steps) -> str | tuple[str, ...] | None:
        if isinstance(node, ListNode):
            return tuple(self._axis(item, (*steps, i)) for i, item in enumerate(node.items))
        if isinstance(node, ScalarNode) and node.value is None:
            return None
        return self._axis(node, steps)

    def _axis(self, node: Node, steps: Steps) -> str:
        name = node.value if isinstance(node, ScalarNode) else None
        if not isinstance(name, str):
            message = f"expected the name of a mesh axis, found {describe(node)}"
            self.report(node.mark, steps, message)
            return ""
        if self.mesh is not None and name not in self.mesh:
            hint = did_you_mean(name, self.mesh) or f"; the mesh has {', '.join(self.mesh)}"
            self.report(node.mark, steps, f"unknown mesh axis {quote(name)}{hint}")
        return name


def _names_of(axis: str | tuple[str, ...] | None) -> tuple[str, ...]:
    return (axis,) if isinstance(axis, str) else axis or ()
