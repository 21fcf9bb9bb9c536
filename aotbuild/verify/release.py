"""The files of a release, as an index gets them: wheels and source distributions, read.

`release_checks` says what is wrong with them. Needs the standard library alone.
"""

from __future__ import annotations

import gzip
import re
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from email.message import Message
from email.parser import HeaderParser
from itertools import product
from pathlib import Path
from typing import Any

from aotbuild.errors import AotbuildError, NoArtifacts
from aotbuild.format.archives import RegularZip
from aotbuild.format.files import open_regular
from aotbuild.format.index import FOLDER_NAME
from aotbuild.format.layout import PART, SPLIT, companions_of
from aotbuild.format.record import Record
from aotbuild.format.toml_text import read_toml
from aotbuild.verify.api import Options, SignatureOptions, examine
from aotbuild.verify.archive import read_metadata
from aotbuild.verify.specifiers import normalized
from aotbuild.verify.zip_layout import Limits

# What installers decide on before they download all wheels of a version.
COMPARED = ("Requires-Dist", "Requires-Python", "Provides-Extra")
_HOOK = ("tool", "hatch", "build", "targets", "wheel", "hooks", "aotbuild")
_MAX_TEXT = 16 << 20


@dataclass(frozen=True)
class Metadata:
    """What METADATA or PKG-INFO states: name, version, and what installers compare.

    A field that a source distribution leaves to its wheels is None.
    """

    name: str
    version: str
    fields: Mapping[str, frozenset[str] | None]

    @classmethod
    def parse(cls, text: str) -> Metadata:
        """Read the text of METADATA or PKG-INFO."""
        stated = HeaderParser().parsestr(text)
        dynamic = {str(name).strip().lower() for name in stated.get_all("Dynamic") or ()}
        fields = {
            name: None if name.lower() in dynamic else _values(stated, name) for name in COMPARED
        }
        return cls(str(stated["Name"]), str(stated["Version"]), fields)

    @property
    def project(self) -> tuple[str, str]:
        """The normalized name, and the version."""
        return normalized(self.name), self.version


def _values(stated: Message, name: str) -> frozenset[str]:
    return frozenset(_plain(str(value)) for value in stated.get_all(name) or ())


_REQUIREMENT = re.compile(r"([\w.-]+ *(?:\[[^\]]*\])?) *\(?([^@()]*)\)?")


def _plain(text: str) -> str:
    """Return a line with one spelling of what tools write in several: order, spaces, quotes."""
    needed, _, condition = (" ".join(part.split()) for part in text.partition(";"))
    if match := _REQUIREMENT.fullmatch(needed):
        needed = match[1].strip() + ",".join(sorted(part.strip() for part in match[2].split(",")))
    return f"{needed}; {condition}".replace('"', "'") if condition else needed


@dataclass(frozen=True)
class Wheel:
    """A wheel: `tags` are (Python, ABI, platform), `build` is its build number, if it has one.

    `header` is that of its index; None if it holds no executables. `failures` are what is wrong
    with its bytes.
    """

    path: Path
    metadata: Metadata
    tags: frozenset[tuple[str, str, str]]
    build: str = ""
    header: Mapping[str, Any] | None = None
    records: tuple[Record, ...] = ()
    failures: tuple[str, ...] = ()

    @property
    def has_native(self) -> bool:
        """Whether any of its records is an executable."""
        return any(not record.target.is_portable for record in self.records)

    @property
    def fits_all(self) -> bool:
        """Whether it says that it fits every platform."""
        return any(platform == "any" for _, _, platform in self.tags)

    @property
    def split(self) -> Any:
        """The index that it was split from, if it is a base or a companion."""
        return (self.header or {}).get(SPLIT)

    @property
    def part(self) -> Any:
        """What a companion holds of its base; None for any other wheel."""
        return (self.header or {}).get(PART)

    @property
    def companions(self) -> dict[str, str]:
        """The distribution of each companion of a base."""
        try:
            return companions_of(self.header or {})
        except ValueError:  # among its failures
            return {}


@dataclass(frozen=True)
class Sdist:
    """A source distribution.

    `built` are members that `aotbuild build` wrote, `absent` is the manifest if it is missing.
    """

    path: Path
    metadata: Metadata
    built: tuple[str, ...] = ()
    absent: str | None = None


@dataclass(frozen=True)
class Release:
    """All files of a release; `others` are neither wheels nor source distributions."""

    wheels: tuple[Wheel, ...] = ()
    sdists: tuple[Sdist, ...] = ()
    others: tuple[Path, ...] = ()
    unreadable: Mapping[Path, str] = field(default_factory=dict)

    @property
    def published(self) -> tuple[Wheel | Sdist, ...]:
        """What an index gets."""
        return (*self.wheels, *self.sdists)

    def projects(self) -> dict[tuple[str, str], list[Wheel]]:
        """Return the wheels by the name and the version of their project."""
        found: dict[tuple[str, str], list[Wheel]] = {}
        for wheel in self.wheels:
            found.setdefault(wheel.metadata.project, []).append(wheel)
        return found


# What damaged files raise beside OSError.
_UNREADABLE = (ValueError, tarfile.TarError, zipfile.BadZipFile, EOFError)


def read_release(paths: Iterable[Path]) -> Release:
    """Read all files; raises OSError if one cannot be opened."""
    wheels, sdists, others = [], [], []
    unreadable: dict[Path, str] = {}
    for path in dict.fromkeys(paths):
        try:
            if path.suffix == ".whl":
                wheels.append(read_wheel(path))
            elif path.name.endswith(".tar.gz"):
                sdists.append(read_sdist(path))
            else:
                others.append(path)
        except _UNREADABLE as err:
            unreadable[path] = str(err)
    return Release(tuple(wheels), tuple(sdists), tuple(others), unreadable)


def read_wheel(path: Path) -> Wheel:
    """Read a wheel and check its bytes; ValueError if it does not say what it is."""
    parts = path.name.removesuffix(".whl").split("-")
    if len(parts) not in (5, 6) or not all(parts):
        msg = "its name is not name-version-python-abi-platform.whl"
        raise ValueError(msg)
    python, abi, platform = (part.split(".") for part in parts[-3:])
    tags = frozenset(product(python, abi, platform))
    build = parts[2] if len(parts) == 6 else ""
    with RegularZip(path) as archive:
        metadata = Metadata.parse(read_metadata(archive, "METADATA"))
    try:
        # AOTBUILD_TRUST decides what may be loaded here, not what may be published.
        examined = examine(path, Options(signature=SignatureOptions(operator=False)))
    except NoArtifacts:
        return Wheel(path, metadata, tags, build)
    except AotbuildError as err:
        return Wheel(path, metadata, tags, build, failures=(str(err),))
    contents = examined.contents
    failed = (outcome for outcome in examined.outcomes if outcome.status.is_failure)
    failures = tuple(f"{outcome.check}: {text}" for outcome in failed for text in outcome.reasons)
    header = contents.index.header if contents.index else None
    return Wheel(path, metadata, tags, build, header, contents.records, failures)


def read_sdist(path: Path) -> Sdist:
    """Read a source distribution; ValueError if it does not say what it is."""
    _check_stream(path)
    with tarfile.open(path, "r:gz") as archive:
        members = {member.name: member for member in archive if member.isfile()}
        root = path.name.removesuffix(".tar.gz")
        info = _text(archive, members.get(f"{root}/PKG-INFO"))
        if info is None:
            msg = f"it has no {root}/PKG-INFO"
            raise ValueError(msg)
        project = _text(archive, members.get(f"{root}/pyproject.toml"))
    names = {name.removeprefix(f"{root}/") for name in members}
    manifest = _manifest(project)
    absent = manifest if manifest is not None and manifest not in names else None
    return Sdist(path, Metadata.parse(info), tuple(sorted(filter(_is_built, names))), absent)


def _check_stream(path: Path) -> None:
    """Read a gzip file to its end, where its checksum is: tarfile doesn't go there."""
    try:
        size, most = 0, Limits().total
        with open_regular(path) as file, gzip.GzipFile(fileobj=file) as stream:
            while more := len(stream.read(1 << 20)):
                size += more
                if size > most:
                    msg = f"it unpacks to over {most:,} bytes"
                    raise ValueError(msg)
    except (gzip.BadGzipFile, zlib.error) as err:
        raise ValueError(str(err)) from err


def _text(archive: tarfile.TarFile, member: tarfile.TarInfo | None) -> str | None:
    file = archive.extractfile(member) if member else None
    return file.read(_MAX_TEXT).decode("utf-8") if file else None


def _is_built(name: str) -> bool:
    """Return whether `aotbuild build` wrote it, whatever its --out was."""
    folders = name.split("/")[:-1]
    is_blob = re.search(r"(^|/)blobs/[0-9a-f]{64}\.", name) is not None
    return FOLDER_NAME in folders or is_blob or name.endswith(f"{FOLDER_NAME}.stages.zip")


def _manifest(project: str | None) -> str | None:
    """Return the path of the manifest that the build hook's table names; None without a table."""
    table: Any = read_toml(project or "")
    for key in _HOOK:
        table = table.get(key) if isinstance(table, dict) else None
    return str(table.get("manifest", "aot.yaml")) if isinstance(table, dict) else None
