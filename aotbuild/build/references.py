"""What a manifest names and the sources do not define, found before anything is traced."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from aotbuild.build.source_names import Missing, SourceNames
from aotbuild.build.sources import SourceTree
from aotbuild.errors import PlanError, Problem
from aotbuild.format.files import read_regular_text
from aotbuild.manifest import Manifest
from aotbuild.manifest.nodes import (
    START,
    ListNode,
    MapNode,
    Mark,
    Node,
    Problems,
    ScalarNode,
    child,
    key_mark,
)
from aotbuild.manifest.reader import read_yaml

_FUNCTIONS = "functions"


@dataclass(frozen=True)
class References:
    """Which names do not exist, with their positions, and which only an import could find."""

    missing: tuple[Problem, ...]
    doubts: tuple[str, ...]

    def refuse_missing(self) -> None:
        """Raise PlanError if a name does not exist."""
        if self.missing:
            raise PlanError("\n".join(map(str, self.missing)), self.missing)


def read_references(manifest: Manifest, sources: SourceTree) -> References:
    """Look up all names of a manifest in the sources; nothing is imported."""
    names = SourceNames(sources)
    missing: list[Problem] = []
    doubts: list[str] = []
    for function, settings in manifest.functions.items():
        for reference in settings.references:
            problem = names.problem(reference)
            path = f"{_FUNCTIONS}.{function}{'.call' if reference == settings.call else ''}"
            text = problem and f"{reference}: {problem.text}"
            if isinstance(problem, Missing):
                mark = position(Path(manifest.file), function, reference) or START
                missing.append(Problem(manifest.file, mark.line, mark.column, path, f"{text}"))
            elif problem:
                doubts.append(f"{path}: {text}, so the plan does not know whether it exists")
    return References(tuple(missing), tuple(doubts))


def position(manifest: Path, function: str, value: str = "") -> Mark | None:
    """Return where a manifest says a value about a function, or else where the function is.

    A value may be among the defaults. None if there is no such function.
    """
    try:
        text = read_regular_text(manifest)
    except (OSError, UnicodeDecodeError):
        return None
    root = read_yaml(text, Problems(str(manifest)))
    functions = child(root, _FUNCTIONS) if root else None
    if root is None or not isinstance(functions, MapNode) or not functions.entry(function):
        return None
    places = (*_marks(child(functions, function) or functions, value), *_marks(root, value))
    return places[0] if value and places else key_mark(functions, function)


def _marks(node: Node, value: str) -> Iterator[Mark]:
    """Yield where a value is written."""
    if isinstance(node, ScalarNode) and node.value == value:
        yield node.mark
    inside = node.items if isinstance(node, ListNode) else ()
    if isinstance(node, MapNode):
        inside = tuple(each for _, each in node.entries)
    for each in inside:
        yield from _marks(each, value)
