"""YAML nodes with their positions, and the problems found there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from aotbuild.errors import ManifestError, Problem
from aotbuild.format.words import SHOWN, quote


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
        return self._by_key.get((type(key), key))

    @cached_property
    def _by_key(self) -> dict[tuple[type, object], tuple[ScalarNode, Node]]:
        return {(type(key.value), key.value): (key, value) for key, value in self.entries}

    def keys(self) -> tuple[Any, ...]:
        """Return the keys in the order of the file."""
        return tuple(key.value for key, _ in self.entries)


Node: TypeAlias = ScalarNode | ListNode | MapNode
Steps: TypeAlias = tuple[object, ...]
# Notes a problem at a mark, with the steps that lead there.
Report: TypeAlias = Callable[[Mark, Steps, str], None]


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


MOST = 1000  # problems kept; a file with more is not the manifest that was meant


class Problems:
    """The problems of one file, in the order they were found."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.found: list[Problem] = []
        self._unreadable: set[Mark] = set()

    @property
    def full(self) -> bool:
        """Whether further problems are dropped."""
        return len(self.found) >= MOST

    def add(self, mark: Mark, path: str, message: str) -> None:
        """Note a problem, unless the YAML at that place is unreadable."""
        if mark in self._unreadable or self.full:
            return
        problem = Problem(self.file, mark.line, mark.column, path, message)
        if problem not in self.found[-20:]:
            self.found.append(problem)

    def unreadable(self, mark: Mark, path: str, message: str) -> None:
        """Note a problem of the YAML itself; later problems at this place are dropped."""
        self.add(mark, path, message)
        self._unreadable.add(mark)

    def extend(self, others: Iterable[Problem]) -> None:
        """Note the problems of another file, which this one names."""
        self.found += [problem for problem in others if problem not in self.found]

    def raise_any(self) -> None:
        """Raise all problems at once, in the order of the file; those of other files come last.

        Raises:
            ManifestError: when there is at least one.
        """
        if self.found:
            raise ManifestError(sorted(self.found, key=self._place))

    def _place(self, problem: Problem) -> tuple[bool, str, int, int]:
        is_other = problem.file != self.file
        return is_other, problem.file, problem.line, problem.column


_LONGEST_STEP = 255


def dotted(steps: Iterable[object]) -> str:
    """Return a dotted path; a step that is no name, or a long one, is quoted."""
    return ".".join(str(step) if _is_plain(step) else quote(step) for step in steps)


def _is_plain(step: object) -> bool:
    if isinstance(step, int):
        return True
    text = str(step)
    return len(text) <= _LONGEST_STEP and text.replace("-", "_").isidentifier()


def describe(node: Node) -> str:
    """Return what a node is, for a message."""
    if isinstance(node, MapNode):
        return "a map" if node.entries else "an empty map"
    if isinstance(node, ListNode):
        return "a list" if node.items else "an empty list"
    return describe_scalar(node)


def describe_scalar(node: ScalarNode) -> str:
    """Return a scalar's kind and text."""
    if node.value is None:
        return "nothing (null)"
    if isinstance(node.value, bool):
        return f"the boolean {str(node.value).lower()}"
    if isinstance(node.value, int | float):
        return f"the number {node.text[:SHOWN]}"
    return f"the text {quote(node.value)}"
