"""Read ``trees:``, the specs that several functions share, and say where one is used wrongly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from aotbuild.format.tree_file import DescribedTree
from aotbuild.format.words import did_you_mean, quote
from aotbuild.manifest.nodes import (
    MapNode,
    Mark,
    Node,
    Problems,
    ScalarNode,
    Steps,
    child,
    describe,
    dotted,
    key_mark,
)
from aotbuild.manifest.spec_reader import SpecReader
from aotbuild.manifest.specs import ArgSpec, NoneSpec, count_parts
from aotbuild.manifest.tree_files import TreeFiles

# Parts of one tree, with those of the trees that it names; and of all that use trees.
MAX_PARTS, MAX_PARTS_IN_ALL = 100_000, 1_000_000
# Trees that name one another, from the outermost to the innermost.
MAX_CHAIN = 64
_CHAIN = f"a chain of more than {MAX_CHAIN} trees, each of which names the next; write it shorter"
_DICT = "a dict pytree with 'tree' as key is written {dict: {…}}"


class TreeSpecs:
    """The specs under ``trees:`` by name, each read when it is asked for first.

    Their dims and static arguments are those of the function that uses them, so nothing checks them
    here. `is_whole` is False where ``trees:`` was refused, so that names mean nothing.
    """

    def __init__(
        self,
        root: Node,
        problems: Problems,
        *,
        is_whole: bool,
        files: Mapping[str, Mapping[str, DescribedTree]] | None = None,
    ) -> None:
        node = child(root, "trees")
        self._node = node if isinstance(node, MapNode) else None
        self._problems, self._is_whole = problems, is_whole
        self._files = TreeFiles(problems, files or {})
        self._found: dict[str, ArgSpec] = {}
        self._parts: dict[int, int] = {}
        self._parts_in_all = 0
        self._open: list[str] = []
        # How many trees are in a row, by the name of the first; and of those that are open, so far.
        self._chains: dict[str, int] = {}
        self._below: list[int] = [0]
        self._used: set[str] = set()

    def spec(self, node: Node, report: Callable[[str], None]) -> ArgSpec:
        """Return the spec of the tree that a node names; report why there is none."""
        name = node.value if isinstance(node, ScalarNode) else None
        if not isinstance(name, str):
            report(f"expected the name of a tree under trees:, found {describe(node)}; {_DICT}")
            return NoneSpec()
        self._used.add(name)
        if not self._is_whole:
            return NoneSpec()
        if name in self._open:
            way = " → ".join([*self._open[self._open.index(name) :], name])
            report(f"the tree {quote(name)} is part of itself: {way}")
            return NoneSpec()
        value = child(self._node, name) if self._node else None
        if value is None:
            report(f"unknown tree {quote(name)}{self._hint(name)}")
            return NoneSpec()
        if len(self._open) >= MAX_CHAIN:
            report(_CHAIN)
            return NoneSpec()
        spec = self._read(name, value)
        self._below[-1] = max(self._below[-1], self._chains.get(name, 0))
        if self._below[-1] + len(self._open) > MAX_CHAIN:
            report(_CHAIN)
            return NoneSpec()
        self._parts_in_all += self._parts.get(id(spec), 0)
        if self._parts_in_all > MAX_PARTS_IN_ALL:
            report(f"the trees that are used have more than {MAX_PARTS_IN_ALL:,} parts in all")
            return NoneSpec()
        return spec

    def described(self, file: str, name: str, report: Callable[[str, str], None]) -> ArgSpec:
        """Return the tree of that name in a file; report which key of the spec is wrong."""
        return self._files.spec(file, name, report)

    def all(self) -> dict[str, ArgSpec]:
        """Return all of them; report what is wrong in one."""
        if self._node is None or not self._is_whole:
            return {}
        return {str(key.value): self._read(str(key.value), n) for key, n in self._node.entries}

    def check_used(self) -> None:
        """Report trees that no spec uses."""
        for name in self.all():
            if name not in self._used and self._node:
                message = f"the tree {quote(name)} is used in no spec of args or kwargs; remove it"
                self._problems.add(key_mark(self._node, name), "trees", message)

    def _read(self, name: str, node: Node) -> ArgSpec:
        if name not in self._found:
            self._open.append(name)
            self._below.append(0)
            reader = SpecReader(partial(self._report, name), self)
            found = reader.read(node, ())
            parts = count_parts(found, self._parts)
            if parts > MAX_PARTS:
                message = f"a tree of {parts:,} parts; at most {MAX_PARTS:,} are possible"
                self._report(name, node.mark, (), message)
                found, parts = NoneSpec(), 1
            self._found[name], self._parts[id(found)] = found, parts
            self._open.pop()
            self._chains[name] = 1 + self._below.pop()
        return self._found[name]

    def _report(self, name: str, mark: Mark, steps: Steps, message: str) -> None:
        self._problems.add(mark, dotted(("trees", name, *steps)), message)

    def _hint(self, name: str) -> str:
        known = self._node.keys() if self._node else ()
        listed = f"known: {', '.join(map(str, known))}" if known else "declare it under trees:"
        return did_you_mean(name, known) or f"; {listed}; {_DICT}"
