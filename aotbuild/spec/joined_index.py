"""Several indexes as one: that of a base and those of its companions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from aotbuild.frozen import dataclass
from aotbuild.spec.function import Function
from aotbuild.spec.index import Bytes, Index
from aotbuild.spec.outline import Outline
from aotbuild.spec.record import Record

_Fields: TypeAlias = tuple[str, bytes, dict[str, Any], Bytes, bytes | memoryview, int, int]


@dataclass(frozen=True)
class JoinedIndex(Index):
    """An index with the records of others added; header and functions are its own.

    A base has every function of the package, also one whose records are all elsewhere.
    """

    others: tuple[Index, ...] = ()

    @classmethod
    def of(cls, base: Index, *others: Index) -> JoinedIndex:
        """Return a base and others as one; no object is read for it."""
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
        # Not `self`: there, every loop over rows would count those of the others.
        return Index(*_fields(self))


def _fields(index: Index) -> _Fields:
    """Return the fields of an index without others."""
    table = index._table, index._rows, index._objects
    return index.place, index.start, index.header, index._data, *table
