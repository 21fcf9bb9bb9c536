"""A YAML document as plain data, where its keys and values are written, and what is wrong there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce
from operator import getitem
from typing import Any, TypeAlias

from aotbuild.errors import ManifestError, Problem
from aotbuild.format.words import SHOWN, quote

# The keys and indices that lead to a value.
Steps: TypeAlias = tuple[int | str, ...]


@dataclass(frozen=True)
class Mark:
    """Where something begins: line and column, both counted from 1."""

    line: int
    column: int


START = Mark(1, 1)


@dataclass(frozen=True)
class Place:
    """Where a value is written, and the key that it has in a map; `text` is that of a scalar."""

    mark: Mark = START
    key: Mark | None = None
    text: str = ""


@dataclass
class Document:
    """Dicts, lists and scalars, and the place of each."""

    data: Any = None
    places: dict[Steps, Place] = field(default_factory=lambda: {(): Place()})

    def reach(self, steps: Iterable[int | str]) -> Steps:
        """Return those of the steps that exist one below the other; the others are skipped.

        Pydantic's locations also have union tags, key markers and the index of a lone value.
        """
        reached: Steps = ()
        for step in steps:
            inner = (*reached, step)
            reached = inner if inner in self.places else reached
        return reached

    def value(self, steps: Steps) -> Any:
        """Return the value at these steps."""
        return reduce(getitem, steps, self.data)

    def describe(self, steps: Steps) -> str:
        """Return what the value at these steps is, for a message."""
        return describe(self.value(steps), self.places[steps].text)


MOST = 1000  # problems kept; a file with more is not the manifest that was meant


class Problems:
    """The problems of one file, in the order they were found; `document` is what it says."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.found: list[Problem] = []
        self.document = Document()
        self._unreadable: set[Mark] = set()

    @property
    def full(self) -> bool:
        """Whether further problems are dropped."""
        return len(self.found) >= MOST

    def report(self, steps: Iterable[int | str], message: str, *, key: bool = False) -> None:
        """Note a problem of a value, or of the key that it has in a map.

        Steps that the document lacks are skipped.
        """
        reached = self.document.reach(steps)
        place = self.document.places[reached]
        if key and place.key is not None:
            self.add(place.key, _shown(reached[:-1]), message)
        else:
            self.add(place.mark, _shown(reached), message)

    def add(self, mark: Mark, steps: Steps, message: str) -> None:
        """Note a problem, unless the YAML at that place is unreadable."""
        if mark in self._unreadable or self.full:
            return
        problem = Problem(self.file, mark.line, mark.column, dotted(steps), message)
        if problem not in self.found[-20:]:
            self.found.append(problem)

    def unreadable(self, mark: Mark, steps: Steps, message: str) -> None:
        """Note a problem of the YAML itself; later problems at this place are dropped."""
        self.add(mark, steps, message)
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
            raise ManifestError(sorted(self.found, key=self._order))

    def _order(self, problem: Problem) -> tuple[bool, str, int, int]:
        is_other = problem.file != self.file
        return is_other, problem.file, problem.line, problem.column


def _shown(steps: Steps) -> Steps:
    """Leave out the index of an argument: its name is below it."""
    for index in (3, 5):  # in a function, and in one of `signatures:`
        if steps[index - 1 : index] == ("args",) and len(steps) > index + 1:
            return steps[:index] + steps[index + 1 :]
    return steps


_LONGEST_STEP = 255


def dotted(steps: Iterable[object]) -> str:
    """Return a dotted path; a step that is no name, or a long one, is quoted."""
    return ".".join(str(step) if _is_plain(step) else quote(step) for step in steps)


def _is_plain(step: object) -> bool:
    if isinstance(step, int):
        return True
    text = str(step)
    return len(text) <= _LONGEST_STEP and text.replace("-", "_").isidentifier()


def describe(value: Any, text: str = "") -> str:
    """Return what a value is, for a message; `text` is how a number is written."""
    if isinstance(value, dict):
        return "a map" if value else "an empty map"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    if isinstance(value, int | float):
        return f"the number {(text or str(value))[:SHOWN]}"
    return f"the text {quote(value)}"
