"""The files of a place: index and blobs of its `_aot` folder, and a wheel as installers see it."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from email.parser import HeaderParser
from functools import partial
from pathlib import Path
from typing import TypeVar

from aotbuild.errors import AotbuildError
from aotbuild.format.dist_info import UNREADABLE
from aotbuild.format.files import open_zip
from aotbuild.format.index import FOLDER_NAME, INDEX_NAME, SOURCES, Index
from aotbuild.format.layout import companions_of, source_problem
from aotbuild.format.record import Blob, Record
from aotbuild.runtime.checked_blobs import Source, index_path, read_blob, read_index
from aotbuild.verify.outcome import Outcome, concluded, not_checked

T = TypeVar("T")

WHEEL = "wheel"
CHECKS = ("index", "blobs", "files")
# Problems that are shown; a damaged wheel may have one for each of its files.
_SHOWN = 20


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


def check_contents(source: Source, names: Iterable[str]) -> Contents:
    """Check everything below an `_aot` folder; `names` are all its files, relative to it."""
    try:
        data = read_index(source)
        index = Index.open(data, index_path(source))
    except (AotbuildError, OSError, ValueError) as err:
        rest = [not_checked(check, source.path, "the index failed") for check in CHECKS[1:]]
        return Contents((concluded("index", source.path, [str(err)]), *rest))
    problems: list[str] = []
    records = _read_all(index, problems)
    blobs = {b.path: b for r in records for b in r.blobs()}
    strays = [name for name in names if name != INDEX_NAME and name not in blobs]
    outcomes = [
        concluded("index", index.place, problems),
        concluded("blobs", source.path, _blob_problems(partial(read_blob, source), blobs)),
        concluded("files", source.path, [f"{n!r} belongs to no record" for n in strays]),
    ]
    if SOURCES in index.header:
        problem = source_problem(index.header, source.path)
        outcomes.append(concluded("sources", source.path, [problem] if problem else []))
    return Contents(tuple(outcomes), index, data, tuple(sorted(records, key=str)))


def files_of_folder(folder: Path) -> list[str]:
    """Return every file below a folder, relative to it."""
    paths = sorted(folder.rglob("*"))
    return [path.relative_to(folder).as_posix() for path in paths if not path.is_dir()]


def files_of_wheel(wheel: Path) -> list[str]:
    """Return every file below the `_aot` folder of a wheel, relative to it."""
    with open_zip(wheel) as archive:
        names = [info.filename for info in archive.infolist() if not info.is_dir()]
    root = next(name for name in names if f"/{name}".endswith(f"/{FOLDER_NAME}/{INDEX_NAME}"))
    prefix = root.removesuffix(INDEX_NAME)
    return sorted(name.removeprefix(prefix) for name in names if name.startswith(prefix))


def _read_all(index: Index, problems: list[str]) -> list[Record]:
    """Return every record that can be read; `problems` gets why others cannot."""
    functions = _attempt(lambda: list(index.functions()), problems)
    records: list[Record] = []
    for function in functions:
        records += _attempt(partial(index.records, function.name), problems)
    read = len(functions) + len(records)
    if not problems and read != index.row_count:
        problems.append(f"expected {index.row_count} objects, found {read} that a lookup finds")
    try:
        companions_of(index.header)
    except ValueError as err:
        problems.append(str(err))
    return records


def _attempt(read: Callable[[], list[T]], problems: list[str]) -> list[T]:
    try:
        return read()
    except AotbuildError as err:
        problems.append(str(err))
        return []


def _blob_problems(read: Callable[[Blob], object], blobs: dict[str, Blob]) -> Iterator[str]:
    for _, blob in sorted(blobs.items()):
        try:
            read(blob)
        except AotbuildError as err:
            yield str(err)


# --- the wheel as a file --------------------------------------------------------------------------


def check_wheel_file(wheel: Path) -> Outcome:
    """Read every file of a wheel and compare it with RECORD; OSError if the wheel can't be read."""
    try:
        with open_zip(wheel) as archive:
            problems = list(_wheel_problems(archive, wheel))
    except zipfile.BadZipFile as err:
        problems = [f"not a zip file that can be read: {err}"]
    if len(problems) > _SHOWN:
        problems = [*problems[:_SHOWN], f"and {len(problems) - _SHOWN} more"]
    return concluded(WHEEL, wheel.name, problems)


def _wheel_problems(archive: zipfile.ZipFile, wheel: Path) -> Iterator[str]:
    from installer.sources import WheelFile  # of the extra `build`, as packaging is
    from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
    from packaging.version import InvalidVersion, Version

    try:
        name, version, *_ = parse_wheel_filename(wheel.name)
        source = WheelFile(archive)
        source.validate_record()
        stated = HeaderParser().parsestr(source.read_dist_info("METADATA"))
        found = canonicalize_name(str(stated["Name"])), Version(str(stated["Version"]))
    except WheelFile.validation_error as err:
        yield from (issue.removeprefix(f"In {archive.filename}, ") for issue in err.issues)
    except (InvalidWheelFilename, InvalidVersion) as err:
        yield str(err)
    except UNREADABLE as err:
        yield f"it cannot be read: {err}"
    except NotImplementedError as err:  # a compression method that zipfile lacks
        yield f"it cannot be unpacked: {err}"
    else:
        if found != (name, version):
            had = f"{stated['Name']} {stated['Version']}"
            yield f"METADATA is not of {wheel.name}: expected {name} {version}, found {had}"
