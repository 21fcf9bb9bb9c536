"""Opening a wheel to make others from it: all checks first, then everything in its index."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.parser import HeaderParser
from functools import cached_property
from pathlib import Path

from aotbuild.errors import WheelRefused
from aotbuild.format.archives import RegularZip
from aotbuild.format.canonical import sha256_hex
from aotbuild.format.index import INDEX_NAME, Index
from aotbuild.format.layout import PART, SPLIT, home_of
from aotbuild.format.record import Record
from aotbuild.format.signature import Function
from aotbuild.verify.api import Options, examine
from aotbuild.verify.archive import dist_infos
from aotbuild.wheels.metadata import problems as metadata_problems

_REMEDY = "Build the wheel again; `aotbuild verify --no-run` shows every check."
# Signatures over RECORD itself, as the wheel format once had them.
_OLD_SIGNATURES = ("RECORD.jws", "RECORD.p7s")


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
        """Read what `str` writes; WheelRefused for the name of a variant, or an invalid name."""
        from packaging.utils import InvalidWheelFilename, parse_wheel_filename

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
    """A wheel that passed every check: its members, its METADATA, and its index."""

    path: Path
    archive: zipfile.ZipFile
    folder: str
    data: bytes
    index: Index
    functions: tuple[Function, ...]
    records: tuple[Record, ...]

    @cached_property
    def name(self) -> WheelName:
        """The parts of its file name."""
        return WheelName.parse(self.path)

    @cached_property
    def info(self) -> str:
        """The name of its `.dist-info` folder."""
        return dist_infos(self.archive)[0]

    @cached_property
    def metadata(self) -> str:
        """The text of METADATA, with its own line endings."""
        return self.archive.read(f"{self.info}/METADATA").decode("utf-8")

    @cached_property
    def distribution(self) -> tuple[str, str]:
        """The name and the version that METADATA states."""
        stated = HeaderParser().parsestr(self.metadata)
        return str(stated["Name"]), str(stated["Version"])

    @property
    def digest(self) -> str:
        """The SHA-256 of its index."""
        return sha256_hex(self.data)

    @property
    def part(self) -> str | None:
        """The name of its part, if it is a companion."""
        part = self.index.header.get(PART)
        return None if part is None else str(part)

    @property
    def split(self) -> str | None:
        """The digest of the index that it was split from, if it is a part."""
        split = self.index.header.get(SPLIT)
        return None if split is None else str(split)

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of all members."""
        return frozenset(self.archive.namelist())

    @cached_property
    def model(self) -> zipfile.ZipInfo:
        """The member whose time and attributes new files get."""
        return self.archive.getinfo(f"{self.folder}{INDEX_NAME}")

    def files(self) -> Iterator[File]:
        """Yield the files that aotbuild did not make, in order: code, data, `.dist-info`.

        RECORD and `_aot` are made anew for every wheel.
        """
        names = self.archive.namelist()
        yield from (self.file(name) for name in names if self._is_kept(name))

    @property
    def place(self) -> int:
        """How many of these files come before `_aot`."""
        names = self.archive.namelist()
        before = names[: names.index(f"{self.folder}{INDEX_NAME}")]
        return sum(map(self._is_kept, before))

    def _is_kept(self, name: str) -> bool:
        made_anew = {f"{self.info}/RECORD"}
        made_anew |= {f"{self.info}/{name}" for name in _OLD_SIGNATURES}
        return not (name.endswith("/") or name.startswith(self.folder) or name in made_anew)

    def file(self, name: str, new_name: str | None = None) -> File:
        """Return a member as a file of a new wheel."""
        info = self.archive.getinfo(name)
        return File(new_name or name, info, lambda: self.archive.read(info))


@contextmanager
def open_wheel(path: Path) -> Iterator[OpenedWheel]:
    """Open a wheel; WheelRefused if it fails a check of `verify`, PackageNotFound if missing."""
    WheelName.parse(path)
    examined = examine(path, Options())
    if examined.failed:
        failed = [outcome for outcome in examined.outcomes if outcome.status.is_failure]
        reasons = [f"{o.check}: {reason}" for o in failed for reason in o.reasons]
        raise WheelRefused(str(path), "its checks fail", reasons, _REMEDY)
    index = examined.contents.index
    assert index is not None
    with RegularZip(path) as archive:
        folder = index.place.removeprefix(f"{path}/").removesuffix(INDEX_NAME)
        functions = tuple(index.functions())
        records = examined.contents.records
        data = examined.contents.data
        opened = OpenedWheel(path, archive, folder, data, index, functions, records)
        _check_names(opened)
        yield opened


def _check_names(wheel: OpenedWheel) -> None:
    """Raise WheelRefused if METADATA is malformed, or the index names no package or version of jax.

    Names of new files, and new requirements, are made from these. That METADATA has the name and
    version of the file is a check of `verify`.
    """
    reasons = [*metadata_problems(wheel.metadata)]
    if home_of(wheel.index.header) is None:
        reasons.append("the index names no package")
    stated_jax = str(wheel.index.header.get("jax", "0"))
    if not all(map(_is_version, stated_jax.split(", "))):
        reasons.append(f"the index says jax {stated_jax!r}, which is no version")
    if reasons:
        problem = "it does not say what it is, or says it in two ways"
        raise WheelRefused(str(wheel.path), problem, reasons, _REMEDY)


def _is_version(text: str) -> bool:
    from packaging.version import InvalidVersion, Version

    try:
        Version(text)
    except InvalidVersion:
        return False
    return True
