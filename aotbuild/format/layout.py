"""The layout of a package on disk, and of the parts of a split package."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from aotbuild.format.files import file_digest
from aotbuild.format.index import COMPANIONS, SOURCES, Index
from aotbuild.format.record import Record
from aotbuild.format.values import cut

# The folder of the blobs, below `_aot`.
BLOBS = "blobs"

# PyPI's limit for one file, unless a project asked for more: "100 MB" in its own message. If it
# counts in powers of two, the note comes a little early.
# https://docs.pypi.org/project-management/storage-limits
PYPI_LIMIT = 100_000_000


# Keys of the index's header: all parts have the first, a base the second, a companion the third.
SPLIT = "split"
PART = "part"

# Entry points of companions: the name is the base's import package, the value the companion's.
ENTRY_POINTS = "aotbuild.companions"

# https://packaging.python.org/en/latest/specifications/name-normalization/
_DISTRIBUTION = r"(?ai)[A-Z0-9]([A-Z0-9._-]{0,254}[A-Z0-9])?"


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
    if not isinstance(found, dict) or not all(
        part.isidentifier() and isinstance(name, str) and re.fullmatch(_DISTRIBUTION, name)
        for part, name in found.items()
    ):
        shown = cut(repr(found), 200)
        msg = f"header: {COMPANIONS}: expected a distribution for each part, found {shown}"
        raise ValueError(msg)
    return dict(found)


def source_problem(header: Mapping[str, Any], folder: str) -> str:
    """Return which modules changed since a package was built in its source folder; else empty.

    `folder` is its `_aot` folder, which may have been moved: a missing module is no change.
    """
    place, edited = Path(folder).absolute(), []
    for name, digest in header.get(SOURCES, {}).items():
        with suppress(OSError, ValueError):
            if file_digest(place.parent / name) != digest:
                edited.append(name)
    if not edited:
        return ""
    more = f" and {len(edited) - 3} more" if edited[3:] else ""
    return (
        f"{header.get('package', folder)} was compiled in its source folder, and these files "
        f"changed since: {', '.join(edited[:3])}{more}\nRun `aotbuild build --in-place` again; or "
        f"remove {place}, and calls of an editable install go to the source."
    )


@dataclass(frozen=True)
class JoinedIndex(Index):
    """An index with the records of others; header and functions are those of the base.

    A base has every function of the package, even if all its records are in companions.
    """

    others: tuple[Index, ...] = ()

    @classmethod
    def of(cls, base: Index, *others: Index) -> JoinedIndex:
        """Return the joined index of a base and others; reads no object."""
        return cls(**vars(base), others=others)

    @property
    def row_count(self) -> int:
        """The number of functions and records together; a function counts once."""
        added = (other.row_count - other.function_count for other in self.others)
        return super().row_count + sum(added)

    def records(self, function: str, key: str | None = None) -> list[Record]:
        """Return the records of a function, or of one of its signatures only."""
        found = super().records(function, key)
        return found + [r for other in self.others for r in other.records(function, key)]

    def first_records(self, function: str) -> Iterator[Record]:
        """Yield one record of each signature of a function; parses one object each."""
        known: set[str] = set()
        own = super().first_records(function)
        for record in chain(own, *(other.first_records(function) for other in self.others)):
            if (key := record.signature.key()) not in known:
                known.add(key)
                yield record
