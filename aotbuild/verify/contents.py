"""The files of an `_aot` folder: index, records and blobs are whole, and nothing else is there."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from aotbuild.errors import AotbuildError
from aotbuild.runtime.source import Source, index_place, read_blob, read_index
from aotbuild.spec.function import Function
from aotbuild.spec.index import FOLDER_NAME, INDEX_NAME, Index
from aotbuild.spec.record import Blob, Record
from aotbuild.spec.signing import SEALS_NAME
from aotbuild.spec.stages import packaged_blobs
from aotbuild.verify.consistency import record_problems
from aotbuild.verify.outcome import Outcome, concluded, not_checked

T = TypeVar("T")

CHECKS = ("index", "records", "blobs", "files")
_HEAD_LINES = 3


@dataclass(frozen=True)
class Contents:
    """What could be read of an `_aot` folder, and the outcomes of reading it.

    `index` is None if it cannot be opened; `data` are the very bytes that it was opened from.
    """

    outcomes: tuple[Outcome, ...]
    index: Index | None = None
    data: bytes = b""
    records: tuple[Record, ...] = ()

    @property
    def package(self) -> str | None:
        """The import package that the index names."""
        stated = None if self.index is None else self.index.header.get("package")
        return None if stated is None else str(stated)


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
    with zipfile.ZipFile(wheel) as archive:
        names = [info.filename for info in archive.infolist() if not info.is_dir()]
    root = next(name for name in names if name.endswith(f"{FOLDER_NAME}/{INDEX_NAME}"))
    prefix = root.removesuffix(INDEX_NAME)
    return sorted(name.removeprefix(prefix) for name in names if name.startswith(prefix))


def _read_all(index: Index, problems: list[str]) -> tuple[list[Function], list[Record]]:
    """Return every function and record that can be read; the rest becomes problems."""
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
    """Yield where rows are not in order, or leave bytes of the objects that no digest covers."""
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
    known = {INDEX_NAME, SEALS_NAME, *blobs}
    for name in names:
        if name not in known:
            yield f"{name!r} belongs to no record"
