"""Collect problems, and put them into words."""

from __future__ import annotations

from collections.abc import Iterable

from aotbuild.errors import ManifestError, Problem
from aotbuild.manifest.nodes import ListNode, MapNode, Mark, Node, ScalarNode
from aotbuild.spec.words import SHOWN, quote

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
        """Note a problem, unless the text there could not be read anyway."""
        if mark in self._unreadable or self.full:
            return
        problem = Problem(self.file, mark.line, mark.column, path, message)
        if problem not in self.found[-20:]:
            self.found.append(problem)

    def unreadable(self, mark: Mark, path: str, message: str) -> None:
        """Note a problem of the YAML itself; later ones at this place are echoes."""
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


def dotted(steps: Iterable[object]) -> str:
    """Return a dotted path; a step with odd characters is quoted."""
    return ".".join(
        str(s) if str(s).replace("-", "_").isidentifier() or isinstance(s, int) else quote(s)
        for s in steps
    )


def describe(node: Node) -> str:
    """Return what a node is, in the words of a message."""
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
