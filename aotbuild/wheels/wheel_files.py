"""Wheels and `_aot` folders: those that are read, after all checks, and those that are written."""

from __future__ import annotations

import base64
import csv
import errno
import hashlib
import io
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.parser import HeaderParser
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from aotbuild.errors import WheelRefused
from aotbuild.format.canonical import sha256_hex
from aotbuild.format.files import move_whole, naming
from aotbuild.format.index import INDEX_NAME, write_index
from aotbuild.format.layout import SPLIT
from aotbuild.format.record import Record
from aotbuild.format.signature import Function
from aotbuild.format.temporary import temporary_folder
from aotbuild.verify.api import examine
from aotbuild.verify.contents import Contents
from aotbuild.wheels.metadata import problems as metadata_problems

_REMEDY = "Build it again; `aotbuild verify --no-run` shows every check."


@dataclass(frozen=True)
class Built:
    """What one build made: its index, and what reads a file of its `_aot` folder by name."""

    place: str
    header: Mapping[str, Any]
    functions: Sequence[Function]
    records: Sequence[Record]
    read: Callable[[str], bytes]


@dataclass(frozen=True)
class File:
    """A file of a new wheel: name, contents, and the member whose time and attributes it gets."""

    name: str
    model: zipfile.ZipInfo
    read: Callable[[], bytes]

    @classmethod
    def made(cls, name: str, model: zipfile.ZipInfo, data: bytes) -> File:
        """Return a file with these contents."""
        return cls(name, model, lambda: data)


@dataclass(frozen=True)
class WheelName:
    """The file name of a wheel: distribution, version with its build number, and tag."""

    distribution: str
    version: str
    tag: str

    @classmethod
    def parse(cls, path: Path) -> WheelName:
        """Read what `str` writes; WheelRefused for anything else."""
        try:
            parse_wheel_filename(path.name)
        except InvalidWheelFilename as err:
            remedy = "Give a wheel as a build made it."
            raise WheelRefused(str(path), "not the name of a wheel", [str(err)], remedy) from err
        distribution, rest = path.stem.split("-", 1)
        version, *tag = rest.rsplit("-", 3)
        return cls(distribution, version, "-".join(tag))

    def __str__(self) -> str:
        return f"{self.distribution}-{self.version}-{self.tag}.whl"


@dataclass(frozen=True)
class OpenedWheel:
    """A wheel that passed every check; `folder` is the path of `_aot` in it, with a slash."""

    path: Path
    archive: zipfile.ZipFile
    folder: str
    digest: str
    built: Built

    @cached_property
    def name(self) -> WheelName:
        """The parts of its file name."""
        return WheelName.parse(self.path)

    @cached_property
    def info(self) -> str:
        """The name of its `.dist-info` folder."""
        tops = {name.partition("/")[0] for name in self.archive.namelist()}
        return next(top for top in sorted(tops) if top.endswith(".dist-info"))

    @cached_property
    def metadata(self) -> str:
        """The text of METADATA, with its own line endings."""
        return self.archive.read(f"{self.info}/METADATA").decode("utf-8")

    @cached_property
    def distribution(self) -> tuple[str, str]:
        """The name and the version that METADATA states."""
        stated = HeaderParser().parsestr(self.metadata)
        return str(stated["Name"]), str(stated["Version"])

    @cached_property
    def model(self) -> zipfile.ZipInfo:
        """The member whose time and attributes new files get."""
        return self.archive.getinfo(f"{self.folder}{INDEX_NAME}")

    def files(self) -> list[File]:
        """Return the files that are not made anew, as `_aot` and RECORD are."""
        own = (self.folder, f"{self.info}/RECORD")
        return [
            File(member.filename, member, partial(self.archive.read, member))
            for member in self.archive.infolist()
            if not member.is_dir() and not member.filename.startswith(own)
        ]


@contextmanager
def open_wheel(path: Path) -> Iterator[OpenedWheel]:
    """Open a wheel; WheelRefused if it fails a check of `verify`, or was split already."""
    WheelName.parse(path)
    examined = examine(path)
    if examined.failed:
        failed = [outcome for outcome in examined.outcomes if outcome.status.is_failure]
        reasons = [f"{o.check}: {reason}" for o in failed for reason in o.reasons]
        raise WheelRefused(str(path), "its checks fail", reasons, _REMEDY)
    contents = examined.contents
    assert contents.index is not None, "its checks passed"
    with zipfile.ZipFile(path) as archive:
        folder = contents.index.place.removeprefix(f"{path}/").removesuffix(INDEX_NAME)
        built = _built(path, contents, lambda name: archive.read(f"{folder}{name}"))
        opened = OpenedWheel(path, archive, folder, sha256_hex(contents.data), built)
        if reasons := [*metadata_problems(opened.metadata)]:
            problem = "its METADATA cannot be edited"
            raise WheelRefused(str(path), problem, reasons, _REMEDY)
        yield opened


def _built(path: Path, contents: Contents, read: Callable[[str], bytes]) -> Built:
    assert contents.index is not None, "its checks passed"
    header, records = dict(contents.index.header), contents.records
    if SPLIT in header:
        remedy = "Give the wheel that the build made: merge first, and split what that writes."
        raise WheelRefused(str(path), "it is a part of a wheel that was split", [], remedy)
    for key in ("objects", "rows"):  # of the index as it was written
        header.pop(key, None)
    return Built(str(path), header, tuple(contents.index.functions()), records, read)


# --- what is written ------------------------------------------------------------------------------


@dataclass(frozen=True)
class NewFolder:
    """A new `_aot` folder; its blobs come from `sources`."""

    header: Mapping[str, Any]
    functions: Sequence[Function]
    records: Sequence[Record]
    sources: Sequence[Built]

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Yield names and contents in the order of a build: the index, then every blob."""
        yield INDEX_NAME, write_index(dict(self.header), self.functions, self.records)
        holders = {
            blob.path: source
            for source in reversed(self.sources)
            for record in source.records
            for blob in record.blobs()
        }
        wanted = {b.path for record in self.records for b in record.blobs()}
        for name in sorted(wanted):
            yield name, holders[name].read(name)


@dataclass(frozen=True)
class NewWheel:
    """A wheel to be written; `info` is the name of its `.dist-info` folder.

    `files` are those beside its `_aot` folder, which is at `place`. `changed` replaces or adds
    files, by their names below `.dist-info`. New files get the time and the attributes of `model`.
    """

    name: WheelName
    info: str
    model: zipfile.ZipInfo
    files: Sequence[File]
    place: str
    folder: NewFolder
    changed: Mapping[str, bytes] = field(default_factory=dict)

    def write(self, out: Path) -> Path:
        """Write the wheel into a folder, whole or not at all; FileExistsError if it exists."""
        path = out / str(self.name)
        if path.exists():  # it may have been published
            reason = "is there already and is not replaced; remove it, or name another folder"
            raise FileExistsError(errno.EEXIST, reason, str(path))
        out.mkdir(parents=True, exist_ok=True)
        with temporary_folder(out) as temporary:
            target = temporary / path.name
            rows = io.StringIO(newline="")
            writer = csv.writer(rows, lineterminator="\n")
            with naming(path), zipfile.ZipFile(target, "w") as archive:
                for file in self._ordered():
                    data = file.read()
                    archive.writestr(_member_like(file.model, file.name), data)
                    writer.writerow((file.name, _record_hash(data), len(data)))
                record = f"{self.info}/RECORD"
                writer.writerow((record, "", ""))
                archive.writestr(_member_like(self.model, record), rows.getvalue())
            move_whole(target, path)
        return path

    def _ordered(self) -> Iterator[File]:
        """Yield code, `_aot`, and `.dist-info` at the end, as installers like it (PEP 427)."""
        changed = {f"{self.info}/{name}": data for name, data in self.changed.items()}
        last = [file for file in self.files if file.name.startswith(f"{self.info}/")]
        yield from (file for file in self.files if file not in last)
        for name, data in self.folder.files():
            yield File.made(f"{self.place}{name}", self.model, data)
        for file in last:
            new = file.name in changed
            yield File.made(file.name, file.model, changed.pop(file.name)) if new else file
        yield from (File.made(name, self.model, data) for name, data in changed.items())


def write_all(wheels: Iterable[NewWheel], out: Path) -> list[Path]:
    """Write every wheel into a folder: all of them or none."""
    written: list[Path] = []
    try:
        for wheel in wheels:
            written.append(wheel.write(out))  # noqa: PERF401 (what is written is removed if one fails)
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        raise
    return written


def _member_like(model: zipfile.ZipInfo, name: str) -> zipfile.ZipInfo:
    """Return a new member with the time, the attributes and the compression of another."""
    member = zipfile.ZipInfo(name, model.date_time)
    member.compress_type, member.external_attr = model.compress_type, model.external_attr
    member.create_system = model.create_system
    return member


def _record_hash(data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
    return f"sha256={digest.rstrip(b'=').decode()}"
