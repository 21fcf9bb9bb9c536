"""Wheels and `_aot` folders that others are made from: all checks first, then what is in them."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from email.parser import HeaderParser
from functools import cached_property
from pathlib import Path
from typing import Any

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from aotbuild.errors import WheelRefused
from aotbuild.format.canonical import sha256_hex
from aotbuild.format.index import INDEX_NAME
from aotbuild.format.layout import SPLIT
from aotbuild.format.record import Record
from aotbuild.format.signature import Function
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

    def replaced(self, data: bytes) -> File:
        """Return it with other contents."""
        return File(self.name, self.model, lambda: data)


def made(name: str, model: zipfile.ZipInfo, data: bytes) -> File:
    """Return a new file."""
    return File(name, model, lambda: data)


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

    def files(self) -> tuple[list[File], list[File]]:
        """Return the files before and behind `_aot` that are not made anew, as RECORD is."""
        names = self.archive.namelist()
        at = names.index(f"{self.folder}{INDEX_NAME}")

        def kept(some: list[str]) -> list[File]:
            own = (self.folder, f"{self.info}/RECORD")
            return [self._file(n) for n in some if not n.endswith("/") and not n.startswith(own)]

        return kept(names[:at]), kept(names[at:])

    def _file(self, name: str) -> File:
        info = self.archive.getinfo(name)
        return File(name, info, lambda: self.archive.read(info))


@contextmanager
def open_wheel(path: Path) -> Iterator[OpenedWheel]:
    """Open a wheel; WheelRefused if it fails a check of `verify`, or was split already."""
    WheelName.parse(path)
    contents = _checked(path)
    assert contents.index is not None, "its checks passed"
    with zipfile.ZipFile(path) as archive:
        folder = contents.index.place.removeprefix(f"{path}/").removesuffix(INDEX_NAME)
        built = _built(path, contents, lambda name: archive.read(f"{folder}{name}"))
        opened = OpenedWheel(path, archive, folder, sha256_hex(contents.data), built)
        if reasons := [*metadata_problems(opened.metadata)]:
            problem = "its METADATA cannot be edited"
            raise WheelRefused(str(path), problem, reasons, _REMEDY)
        yield opened


def open_folder(path: Path) -> Built:
    """Open an `_aot` folder; WheelRefused if it fails a check of `verify`, or was split already."""
    return _built(path, _checked(path), lambda name: (path / name).read_bytes())


def _checked(path: Path) -> Contents:
    examined = examine(path)
    if examined.failed:
        failed = [outcome for outcome in examined.outcomes if outcome.status.is_failure]
        reasons = [f"{o.check}: {reason}" for o in failed for reason in o.reasons]
        raise WheelRefused(str(path), "its checks fail", reasons, _REMEDY)
    return examined.contents


def _built(path: Path, contents: Contents, read: Callable[[str], bytes]) -> Built:
    assert contents.index is not None, "its checks passed"
    header, records = dict(contents.index.header), contents.records
    if SPLIT in header:
        remedy = "Give the wheel that the build made: merge first, and split what that writes."
        raise WheelRefused(str(path), "it is a part of a wheel that was split", [], remedy)
    for key in ("objects", "rows"):  # of the index as it was written
        header.pop(key, None)
    return Built(str(path), header, tuple(contents.index.functions()), records, read)
