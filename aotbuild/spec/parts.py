"""Packages in several wheels: a base, its companions, and their joined index."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from aotbuild.frozen import dataclass
from aotbuild.spec.index import COMPANIONS, Bytes, Index
from aotbuild.spec.record import Record
from aotbuild.spec.signature import Function, Outline
from aotbuild.spec.values import cut

# Keys of the index's header: all parts have the first, a base the second, a companion the third.
SPLIT = "split"
PART = "part"

# Entry points of companions: the name is the base's import package, the value the companion's.
ENTRY_POINTS = "aotbuild.companions"

# https://packaging.python.org/en/latest/specifications/name-normalization/
_DISTRIBUTION = r"(?ai)[A-Z0-9]([A-Z0-9._-]{0,254}[A-Z0-9])?"
_LONGEST = 200


def part_package(package: str, part: str) -> str:
    """Return the import package that holds the `_aot` folder of a companion."""
    return f"{package.replace('.', '_')}_aot_{part}"


def part_distribution(distribution: str, part: str) -> str:
    """Return the name of a companion's distribution, as `pip install` takes it."""
    return f"{distribution}-aot-{part}"


def home_of(header: Mapping[str, Any]) -> str | None:
    """Return the import package whose `_aot` folder holds an index; None if it names none."""
    package, part = header.get("package"), header.get(PART)
    if package is None:
        return None
    return str(package) if part is None else part_package(str(package), str(part))


def companions_of(header: Mapping[str, Any]) -> dict[str, str]:
    """Return the distribution of each part that a base lacks; ValueError if malformed."""
    found = header.get(COMPANIONS, {})
    is_known = isinstance(found, dict) and all(map(_is_distribution, found.values()))
    if not is_known or not all(part.isidentifier() for part in found):
        shown = cut(repr(found), _LONGEST)
        msg = f"header: {COMPANIONS}: expected a distribution for each part, found {shown}"
        raise ValueError(msg)
    return dict(found)


def _is_distribution(name: object) -> bool:
    return isinstance(name, str) and re.fullmatch(_DISTRIBUTION, name) is not None


def whole_header(header: Mapping[str, Any]) -> dict[str, Any]:
    """Return the header that the package had before it was split."""
    written = {SPLIT, COMPANIONS, PART, "objects", "rows"}
    return {key: value for key, value in header.items() if key not in written}


_Fields: TypeAlias = tuple[str, bytes, dict[str, Any], Bytes, bytes | memoryview, int, int]


@dataclass(frozen=True)
class JoinedIndex(Index):
    """An index with the records of others; header and functions are those of the base.

    A base has every function of the package, even if all its records are in companions.
    """

    others: tuple[Index, ...] = ()

    @classmethod
    def of(cls, base: Index, *others: Index) -> JoinedIndex:
        """Return the joined index of a base and others; reads no object."""
        return cls(*_fields(base), others)

    @property
    def row_count(self) -> int:
        """The number of functions and records together; a function counts once."""
        added = (other.row_count - other.function_count for other in self.others)
        return super().row_count + sum(added)

    def functions(self) -> Iterator[Function]:
        """Yield every function; parses one object each."""
        return self._base.functions()

    def function(self, name: str) -> Function | None:
        """Return the function of that name, or None."""
        return self._base.function(name)

    def records(self, function: str, key: str | None = None) -> list[Record]:
        """Return the records of a function, or of one of its signatures only."""
        indexes = (self._base, *self.others)
        return [record for index in indexes for record in index.records(function, key)]

    def outlines(self, function: str) -> Iterator[Outline]:
        """Yield the unchecked outline of each signature of a function; parses no object."""
        known: set[str] = set()
        for index in (self._base, *self.others):
            for found in index.outlines(function):
                if found[0] not in known:
                    known.add(found[0])
                    yield found

    @property
    def _base(self) -> Index:
        # Not `self`, whose loops over rows would include those of the others.
        return Index(*_fields(self))


def _fields(index: Index) -> _Fields:
    """Return the fields of an index without others."""
    table = index._table, index._rows, index._objects
    return index.place, index.start, index.header, index._data, *table
