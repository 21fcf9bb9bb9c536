"""The files of an `_aot` folder: index, records and blobs are intact and complete."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from aotbuild.errors import AotbuildError
from aotbuild.format.about import About
from aotbuild.format.archives import RegularZip
from aotbuild.format.index import COMPANIONS, FOLDER_NAME, INDEX_NAME, Index
from aotbuild.format.layout import companions_of, packaged_blobs
from aotbuild.format.left_out import LEFT_OUT, read_left_out
from aotbuild.format.record import Blob, Record
from aotbuild.format.signature import Function
from aotbuild.format.sources import read_sources
from aotbuild.runtime.blobs import read_blob
from aotbuild.runtime.package import check_policy
from aotbuild.runtime.source import Source, index_place, read_index
from aotbuild.verify.functions import function_problems
from aotbuild.verify.outcome import Outcome, concluded, not_checked

_VERSION = re.compile(r"[0-9]{1,4}(\.[0-9]{1,6}){0,3}", re.ASCII)
_CAPABILITY = re.compile(r"[0-9]{1,3}\.[0-9][af]?", re.ASCII)


def record_problems(
    header: dict[str, object], functions: Sequence[Function], records: Sequence[Record]
) -> Iterator[str]:
    """Yield every contradiction, with the name of its record."""
    seen: dict[tuple[str, str, str, str | None], Record] = {}
    stated = header.get("jaxlib")
    jaxlibs = None if stated is None else str(stated).split(", ")
    for record in records:
        for check in _CHECKS:
            reason = check(record)
            if reason:
                yield f"{record}: {reason}"
        jaxlib = record.requires.jaxlib
        if jaxlibs is not None and not record.target.is_portable and jaxlib not in jaxlibs:
            yield f"{record}: needs jaxlib {jaxlib}, the index says {stated}"
        key = (record.function, record.signature.key(), str(record.target), jaxlib)
        if key in seen:
            yield f"{record}: has the same signature and target as {seen[key]}"
        seen[key] = record
    yield from _header_problems(header)
    yield from _about_problems(functions)
    whole = not {COMPANIONS, LEFT_OUT} & header.keys()
    yield from function_problems(functions, records, whole=whole)
    called = {record.function for record in records}
    # The records of a base may all be in its companions.
    uncalled = () if COMPANIONS in header else {function.name for function in functions} - called
    for name in sorted(uncalled):
        if not _is_left_out(name, header):
            yield f"{name}: no record is of this function"


def _about_problems(functions: Sequence[Function]) -> Iterator[str]:
    for function in functions:
        try:
            About.from_json(function.about)
        except ValueError as err:
            yield f"{function.name}: {err}"


def _is_left_out(name: str, header: dict[str, object]) -> bool:
    """Return whether the header says that the units of a function failed."""
    try:
        found = read_left_out(header)
    except ValueError:
        return False
    return found.more > 0 or any(unit.function == name for unit in found.units)


def _header_problems(header: dict[str, object]) -> Iterator[str]:
    for read in (companions_of, read_left_out, read_sources):
        try:
            read(header)
        except ValueError as err:
            yield str(err)
    try:
        check_policy(header.get("fallback"), "fallback")
    except AotbuildError as err:
        yield str(err)


def _check_kind(record: Record) -> str | None:
    expected = "stablehlo" if record.target.is_portable else "pjrt"
    found = record.blob.kind
    return None if found == expected else f"its blob is {found}, expected {expected}"


def _check_tolerances(record: Record) -> str | None:
    golden = record.golden
    if golden is None or golden.rtol is None or golden.rtol < 1:
        return None
    return f"golden: with the tolerance rtol {golden.rtol:g}, zeros would pass"


def _check_versions(record: Record) -> str | None:
    requires = record.requires
    pairs = [
        ("capability", _CAPABILITY, requires.capability),
        *((name, _VERSION, version) for name, version in requires.lowest_versions),
    ]
    wrong = (
        f"requires {what} {found!r}, which is none"
        for what, form, found in pairs
        if found is not None and not form.fullmatch(found)
    )
    return next(wrong, None)


_CHECKS: tuple[Callable[[Record], str | None], ...] = (
    _check_kind,
    _check_tolerances,
    _check_versions,
)


T = TypeVar("T")

CHECKS = ("index", "records", "blobs", "files")
_HEAD_LINES = 3


@dataclass(frozen=True)
class Contents:
    """The readable contents of an `_aot` folder, and the outcomes of reading it.

    `index` is None if it cannot be opened; `data` holds the bytes that were opened.
    """

    outcomes: tuple[Outcome, ...]
    index: Index | None = None
    data: bytes = b""
    records: tuple[Record, ...] = ()

    @property
    def package(self) -> str | None:
        """The import package that the index names."""
        stated = self.header.get("package")
        return None if stated is None else str(stated)

    @property
    def header(self) -> dict[str, object]:
        """The header of the index; empty if that cannot be opened."""
        return {} if self.index is None else self.index.header


def check_contents(source: Source, names: list[str]) -> Contents:
    """Check everything below an `_aot` folder; `names` are all its files, relative to it."""
    try:
        data = read_index(source)
        index = Index.open(data, index_place(source))
        rows = list(_row_problems(data, index))
    except (AotbuildError, OSError, ValueError) as err:
        rest = [not_checked(check, source.place, "the index failed") for check in CHECKS[1:]]
        return Contents((concluded("index", source.place, [str(err)]), *rest))
    problems: list[str] = []
    functions, records = _read_all(index, problems)
    blobs = {b.path: b for r in records for b in packaged_blobs(r, index.header)}
    outcomes = (
        concluded("index", index.place, [*rows, *problems]),
        concluded("records", index.place, record_problems(index.header, functions, records)),
        concluded("blobs", source.place, _blob_problems(source, blobs)),
        concluded("files", source.place, _strays(names, blobs)),
    )
    return Contents(outcomes, index, data, tuple(sorted(records, key=str)))


def files_of_folder(folder: Path) -> list[str]:
    """Return every file below a folder, relative to it."""
    paths = sorted(folder.rglob("*"))
    return [path.relative_to(folder).as_posix() for path in paths if not path.is_dir()]


def files_of_wheel(wheel: Path) -> list[str]:
    """Return every file below the `_aot` folder of a wheel, relative to it."""
    with RegularZip(wheel) as archive:
        names = [info.filename for info in archive.infolist() if not info.is_dir()]
    root = next(name for name in names if f"/{name}".endswith(f"/{FOLDER_NAME}/{INDEX_NAME}"))
    prefix = root.removesuffix(INDEX_NAME)
    return sorted(name.removeprefix(prefix) for name in names if name.startswith(prefix))


def _read_all(index: Index, problems: list[str]) -> tuple[list[Function], list[Record]]:
    """Return every function and record that can be read, and the problems of the others."""
    functions: list[Function] = _attempt(lambda: list(index.functions()), problems)
    records: list[Record] = []
    for function in functions:
        records += _attempt(partial(index.records, function.name), problems)
    read = len(functions) + len(records)
    if not problems and read != index.row_count:
        problems.append(f"expected {index.row_count} objects, found {read} that a lookup finds")
    return functions, records


def _attempt(read: Callable[[], list[T]], problems: list[str]) -> list[T]:
    try:
        return read()
    except AotbuildError as err:
        problems.append(str(err))
        return []


def _row_problems(data: bytes, index: Index) -> Iterator[str]:
    """Yield rows out of order, and bytes of the objects that no digest covers."""
    offset, last = 0, ""
    end = _HEAD_LINES + index.row_count
    for line in data.split(b"\n", end)[_HEAD_LINES:end]:
        key, start, length, _ = line.decode("ascii").split(" ")
        if key < last:
            yield f"row {key} comes after {last}: a lookup may not find it"
        if int(start, 16) != offset:
            yield f"row {key}: expected its object at byte {offset}, found {int(start, 16)}"
            return
        offset, last = offset + int(length, 16) + 1, key
    if offset != index.header["objects"]:
        yield f"expected {offset} bytes of objects, found {index.header['objects']}"


def _blob_problems(source: Source, blobs: dict[str, Blob]) -> Iterator[str]:
    for _, blob in sorted(blobs.items()):
        try:
            read_blob(source, blob)
        except AotbuildError as err:
            yield str(err)


def _strays(names: list[str], blobs: dict[str, Blob]) -> Iterator[str]:
    known = {INDEX_NAME, *blobs}
    for name in names:
        if name not in known:
            yield f"{name!r} belongs to no record"
