"""Positioned YAML nodes, and the plain data in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True)
class Mark:
    """Where something begins: line and column, both counted from 1."""

    line: int
    column: int


START = Mark(1, 1)


@dataclass(frozen=True)
class ScalarNode:
    """A value, with the text it was written as."""

    mark: Mark
    value: bool | int | float | str | None
    text: str


@dataclass(frozen=True)
class ListNode:
    """A sequence."""

    mark: Mark
    items: tuple[Node, ...]


@dataclass(frozen=True)
class MapNode:
    """A mapping; no key occurs twice."""

    mark: Mark
    entries: tuple[tuple[ScalarNode, Node], ...]

    def entry(self, key: object) -> tuple[ScalarNode, Node] | None:
        """Return the key and value nodes of a key, or None."""
        for found in self.entries:
            if found[0].value == key and type(found[0].value) is type(key):
                return found
        return None

    def keys(self) -> tuple[Any, ...]:
        """Return the keys in the order of the file."""
        return tuple(key.value for key, _ in self.entries)


Node: TypeAlias = ScalarNode | ListNode | MapNode


def plain(node: Node) -> Any:
    """Return the node as dicts, lists and scalars."""
    if isinstance(node, MapNode):
        return {key.value: plain(value) for key, value in node.entries}
    if isinstance(node, ListNode):
        return [plain(item) for item in node.items]
    return node.value


def child(node: Node, step: object) -> Node | None:
    """Return the value one step further in, or None where there is none."""
    if isinstance(node, MapNode):
        found = node.entry(step)
        return found[1] if found else None
    if isinstance(node, ListNode) and isinstance(step, int):
        return node.items[step] if 0 <= step < len(node.items) else None
    return None


def walk(node: Node, steps: Sequence[object]) -> Node:
    """Return the innermost node that the steps reach; unknown steps are skipped."""
    for step in steps:
        node = child(node, step) or node
    return node


def key_mark(node: Node, key: object) -> Mark:
    """Return where a key of a map is written, or where the node is."""
    found = node.entry(key) if isinstance(node, MapNode) else None
    return found[0].mark if found else node.mark
