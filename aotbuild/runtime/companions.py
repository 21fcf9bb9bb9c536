"""Companions: distributions that hold more executables of a package that was split.

They are found without importing anything. Only the distributions that the header of the base names
are looked up, and nothing else that is installed is read. This module is imported only if there are
such names, so a package that was not split pays nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from aotbuild.errors import CompanionMismatch, InvalidIndex
from aotbuild.format.index import FOLDER_NAME, Index
from aotbuild.format.layout import (
    ENTRY_POINTS,
    PART,
    SPLIT,
    JoinedIndex,
    companions_of,
    part_package,
)
from aotbuild.runtime.checked_blobs import (
    DirectorySource,
    Mapper,
    Source,
    absolute,
    index_path,
    open_index,
)

if TYPE_CHECKING:
    from importlib import metadata

T = TypeVar("T")


class JoinedSource:
    """Several sources as one: the `_aot` folder of a base and those of its companions.

    Blobs are named by their content, so it does not matter which source has one.
    """

    def __init__(self, base: Source, *others: Source) -> None:
        self.parts = (base, *others)
        self.path = base.path

    def path_of(self, name: str) -> str:
        """Return the path of a file in the first source that has it, or in the base."""
        for source in self.parts:
            try:
                source.read(name, 0)
            except FileNotFoundError:
                continue
            except OSError:
                pass  # this source has the file, though it cannot be read
            return source.path_of(name)
        return self.parts[0].path_of(name)

    def read(self, name: str, limit: int = -1) -> bytes:
        """Return the bytes of a file, at most `limit` of them; OSError if it cannot be read."""
        return self._first(lambda source: source.read(name, limit))

    def view(self, name: str, size: int, mapper: Mapper) -> memoryview:
        """Return a file as the first source that has it does."""
        return self._first(lambda source: source.view(name, size, mapper))

    def close(self) -> None:
        """Close all of them."""
        for source in self.parts:
            source.close()

    def _first(self, read: Callable[[Source], T]) -> T:
        for source in self.parts[:-1]:
            with suppress(FileNotFoundError):
                return read(source)
        return read(self.parts[-1])


@dataclass(frozen=True)
class Companion:
    """One companion of a base. Only its name is set if it is not installed."""

    part: str
    distribution: str
    version: str | None = None
    source: Source | None = None
    index: Index | None = None

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}"

    @property
    def absence(self) -> str:
        """A line for errors if it is not installed, else empty."""
        remedy = f"not installed: pip install {self.distribution}"
        return f"executables for {self.part}: {remedy}" if self.source is None else ""


def find(source: Source, index: Index, package: str | None) -> tuple[Companion, ...]:
    """Return the companions of a base, given its source and index, if `package` names it.

    Raises what `open_index` raises, and CompanionMismatch for a companion of another build.
    """
    try:
        expected = companions_of(index.header)
    except ValueError as err:
        raise InvalidIndex(index_path(source), "the names of companions", str(err)) from err
    return tuple(_open_all(index, package, expected)) if package is not None else ()


def join(source: Source, index: Index, companions: Sequence[Companion]) -> tuple[Source, Index]:
    """Return one source and one index for a base and its installed companions."""
    sources = [found.source for found in companions if found.source is not None]
    indexes = [found.index for found in companions if found.index is not None]
    if not sources:
        return source, index
    return JoinedSource(source, *sources), JoinedIndex.of(index, *indexes)


def _open_all(base: Index, package: str, expected: dict[str, str]) -> Iterator[Companion]:
    for part, name in sorted(expected.items()):
        distribution = _installed(name)
        if distribution is None:
            yield Companion(part, name)
            continue
        found = Companion(part, name, _version(distribution, package, name))
        source = DirectorySource(absolute(_folder(distribution, package, found)))
        index = open_index(source)
        _check_build(base, index, package, found)
        yield Companion(part, name, found.version, source, index)


def _installed(name: str) -> metadata.Distribution | None:
    from importlib import metadata  # takes 10 ms

    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None


def _version(distribution: metadata.Distribution, package: str, name: str) -> str:
    from aotbuild.format.dist_info import UNREADABLE  # takes 10 ms

    wanted = "a METADATA with its version"
    try:
        # None if METADATA has no version, although its type says str; or a KeyError.
        found: str | None = distribution.version
    except KeyError:
        found = None
    except UNREADABLE as err:
        raise CompanionMismatch(package, name, wanted, str(err)) from err
    if not found:
        raise CompanionMismatch(package, name, wanted, "none")
    return found


def _folder(distribution: metadata.Distribution, package: str, companion: Companion) -> Path:
    """Return the `_aot` folder that the entry point of a companion names."""
    try:
        points = distribution.entry_points.select(group=ENTRY_POINTS, name=package)
        values = [point.value for point in points]
    except (TypeError, ValueError) as err:  # what importlib.metadata raises for a damaged file
        values = [f"entry_points.txt, damaged: {err}"]
    expected = part_package(package, companion.part)
    if values != [expected]:
        wanted = f"the entry point {package} = {expected} in the group {ENTRY_POINTS}"
        raise CompanionMismatch(package, str(companion), wanted, ", ".join(values) or "none")
    return Path(str(distribution.locate_file(expected)), FOLDER_NAME)


def _check_build(base: Index, index: Index, package: str, companion: Companion) -> None:
    of_base, found = _identity(base, companion.part), _identity(index, index.header.get(PART))
    if of_base != found:
        raise CompanionMismatch(package, str(companion), of_base, found)


def _identity(index: Index, part: object) -> str:
    header = index.header
    return f"part {part} of {header.get('package')}, of the build {header.get(SPLIT)}"
