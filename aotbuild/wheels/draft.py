"""A wheel to be written: the files it takes over, and a new `_aot` folder."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aotbuild.spec.index import INDEX_NAME, write_index
from aotbuild.spec.layout import packaged_blobs
from aotbuild.spec.record import Record
from aotbuild.spec.signature import Function
from aotbuild.wheels.attachments import make_sbom
from aotbuild.wheels.opened import OpenedWheel, WheelName
from aotbuild.wheels.writing import File, made, write_wheel


@dataclass(frozen=True)
class Artifacts:
    """The contents of a new `_aot` folder; its blobs come from `sources`."""

    folder: str
    header: dict[str, Any]
    functions: Sequence[Function]
    records: Sequence[Record]
    sources: Sequence[OpenedWheel]

    def index(self) -> bytes:
        """Return the bytes of its index."""
        return write_index(self.header, self.functions, self.records)

    def files(self, model: zipfile.ZipInfo) -> Iterator[File]:
        """Yield its files: every blob of its records, then the index."""
        names = {b.path for record in self.records for b in packaged_blobs(record, self.header)}
        for name in sorted(names):
            source = next(s for s in self.sources if f"{s.folder}{name}" in s.names)
            yield source.file(f"{source.folder}{name}", f"{self.folder}{name}")
        yield made(f"{self.folder}{INDEX_NAME}", model, self.index())


@dataclass(frozen=True)
class Draft:
    """A wheel to be written; `info` is the name of its `.dist-info` folder.

    `files` are taken over; `changed` replaces or adds files, by their names below `.dist-info`.
    `sbom` asks for a bill of materials.
    """

    name: WheelName
    info: str
    distribution: tuple[str, str]
    model: zipfile.ZipInfo
    files: Sequence[File]
    artifacts: Artifacts
    changed: dict[str, bytes] = field(default_factory=dict)
    sbom: bool = False
    label: str | None = None

    @classmethod
    def like(
        cls,
        wheel: OpenedWheel,
        artifacts: Artifacts,
        changed: dict[str, bytes],
        *,
        sbom: bool,
        label: str | None = None,
    ) -> Draft:
        """Return a draft with the name and the unchanged files of a wheel."""
        files = list(wheel.files())
        identity = wheel.name, wheel.info, wheel.distribution, wheel.model
        return cls(*identity, files, artifacts, changed, sbom, label)

    @property
    def file_name(self) -> str:
        """Its file name, with the label of a variant at the end."""
        name = str(self.name)
        return name if self.label is None else f"{name.removesuffix('.whl')}-{self.label}.whl"

    def write(self, out: Path) -> Path:
        """Write the wheel into a folder; FileExistsError if it exists."""
        path = out / self.file_name
        write_wheel(path, self._ordered(), made(f"{self.info}/RECORD", self.model, b""))
        return path

    def _ordered(self) -> Iterator[File]:
        """Yield code, then `_aot`, then `.dist-info`, as the wheel format recommends."""
        infos = [file for file in self.files if file.name.startswith(f"{self.info}/")]
        yield from (file for file in self.files if file not in infos)
        yield from self.artifacts.files(self.model)
        changed = {f"{self.info}/{name}": data for name, data in self.changed.items()}
        for file in infos:
            yield file.replaced(changed.pop(file.name)) if file.name in changed else file
        yield from (made(name, self.model, data) for name, data in changed.items())
        if self.sbom:
            yield self._sbom_file()

    def _sbom_file(self) -> File:
        artifacts = self.artifacts
        name, data = make_sbom(artifacts.index(), artifacts.sources, self.distribution)
        return made(f"{self.info}/sboms/{name}", self.model, data)


@dataclass(frozen=True)
class Written:
    """The wheels that were written, the files beside them, and notes for the user."""

    wheels: tuple[Path, ...]
    beside: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()


def write_all(
    drafts: Iterable[Draft], out: Path, also: Callable[[Draft, Path], Iterable[Path]]
) -> Written:
    """Write every draft, and what `also` writes beside each: all of them or none."""
    wheels: list[Path] = []
    beside: list[Path] = []
    try:
        for draft in drafts:
            wheels.append(draft.write(out))
            beside += also(draft, wheels[-1])
    except BaseException:
        for path in (*wheels, *beside):
            path.unlink(missing_ok=True)
        raise
    return Written(tuple(wheels), tuple(beside))
