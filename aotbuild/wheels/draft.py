"""A wheel to be written: files it takes over, a new `_aot`, kept stages."""

from __future__ import annotations

import csv
import errno
import io
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aotbuild.build.pack import write_stages
from aotbuild.format.files import move_whole, naming
from aotbuild.format.index import INDEX_NAME, write_index
from aotbuild.format.layout import (
    BESIDE,
    HEADER_KEY,
    packaged_blobs,
    stages_path,
)
from aotbuild.format.record import Record
from aotbuild.format.signature import Function
from aotbuild.format.temporary import temporary_folder
from aotbuild.runtime.stages import StagesFile, beside, read_stage
from aotbuild.verify.archive import member_like, record_hash
from aotbuild.wheels.opened import File, OpenedWheel, WheelName, made


def absent_stages(wheels: Sequence[OpenedWheel]) -> list[str]:
    """Return a note for each wheel whose file of kept stages is missing."""
    return [
        f"{beside(wheel.path)} is not there: the new wheels come without those kept stages"
        for wheel in wheels
        if _keeps_beside(wheel) and not beside(wheel.path).exists()
    ]


def split_stages(
    wheels: Sequence[OpenedWheel], records: Sequence[Record], wheel: Path
) -> Iterator[Path]:
    """Write the kept stages of records beside a new wheel and yield the file, if any.

    Raises DamagedBlob if a stage is not what the build made.
    """
    places = [beside(w.path) for w in wheels if _keeps_beside(w)]
    with ExitStack() as stack:
        files = [StagesFile(place) for place in places if place.exists()]
        for file in files:
            stack.callback(file.close)
        held = {name: file for file in reversed(files) for name in file.names()}
        kept = [r for r in records if r.stages and all(b.path in held for _, b in r.stages)]
        if kept:
            check_free(stages_path(wheel))
            yield _write(held, kept, stages_path(wheel))


def _write(held: dict[str, StagesFile], records: Sequence[Record], path: Path) -> Path:
    with temporary_folder(path.parent) as folder:
        for blob in {blob for record in records for _, blob in record.stages}:
            target = folder / blob.path
            target.parent.mkdir(parents=True, exist_ok=True)
            with naming(path):
                target.write_bytes(read_stage(held[blob.path], blob))
        write_stages(path, folder, records)
    return path


def _keeps_beside(wheel: OpenedWheel) -> bool:
    return wheel.index.header.get(HEADER_KEY) == BESIDE


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
        """Yield its files in the order of a build: the index, then every blob of its records."""
        yield made(f"{self.folder}{INDEX_NAME}", model, self.index())
        names = {b.path for record in self.records for b in packaged_blobs(record, self.header)}
        for name in sorted(names):
            source = next(s for s in self.sources if f"{s.folder}{name}" in s.names)
            yield source.file(f"{source.folder}{name}", f"{self.folder}{name}")


@dataclass(frozen=True)
class Draft:
    """A wheel to be written; `info` is the name of its `.dist-info` folder.

    `files` are taken over, and `place` of them come before `_aot`. `changed` replaces or adds
    files, by their names below `.dist-info`.
    """

    name: WheelName
    info: str
    distribution: tuple[str, str]
    model: zipfile.ZipInfo
    files: Sequence[File]
    place: int
    artifacts: Artifacts
    changed: dict[str, bytes] = field(default_factory=dict)

    @classmethod
    def like(
        cls,
        wheel: OpenedWheel,
        artifacts: Artifacts,
        changed: dict[str, bytes],
    ) -> Draft:
        """Return a draft with the name and the unchanged files of a wheel."""
        identity = wheel.name, wheel.info, wheel.distribution, wheel.model
        files = list(wheel.files())
        return cls(*identity, files, wheel.place, artifacts, changed)

    def write(self, out: Path) -> Path:
        """Write the wheel into a folder; FileExistsError if it exists."""
        path = out / str(self.name)
        # RECORD is written like METADATA, and not like the files of a project.
        stated = (file.model for file in self.files if file.name == f"{self.info}/METADATA")
        model = next(stated, self.model)
        write_wheel(path, self._ordered(), made(f"{self.info}/RECORD", model, b""))
        return path

    def _ordered(self) -> Iterator[File]:
        """Yield files in the order of a build: code, `_aot`, data, and `.dist-info` at the end."""
        changed = {f"{self.info}/{name}": data for name, data in self.changed.items()}
        last = f"{self.info}/extra_metadata/"
        yield from self.files[: self.place]
        yield from self.artifacts.files(self.model)
        rest = self.files[self.place :]
        for file in (file for file in rest if not file.name.startswith(last)):
            yield file.replaced(changed.pop(file.name)) if file.name in changed else file
        yield from (made(name, self.model, data) for name, data in changed.items())
        yield from (file for file in rest if file.name.startswith(last))


@dataclass(frozen=True)
class Written:
    """The wheels that were written, the files beside them, and notes for the user."""

    wheels: tuple[Path, ...]
    beside: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()


def write_all(
    drafts: Iterable[Draft],
    out: Path,
    also: Callable[[Draft, Path], Iterable[Path]],
    notes: Iterable[str],
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
    return Written(tuple(wheels), tuple(beside), tuple(notes))


def check_free(path: Path) -> None:
    """Raise FileExistsError for an existing file: that wheel may have been published."""
    if path.exists():
        reason = "is there already and is not replaced; remove it, or name another folder"
        raise FileExistsError(errno.EEXIST, reason, str(path))


def write_wheel(path: Path, files: Iterable[File], record: File) -> None:
    """Write the files and then `record`, whose contents are made here, atomically.

    Raises FileExistsError if the wheel exists.
    """
    check_free(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(path.parent) as temporary:
        target = temporary / path.name
        rows = io.StringIO(newline="")
        writer = csv.writer(rows, lineterminator="\n")
        with naming(path), zipfile.ZipFile(target, "w") as archive:
            for file in files:
                data = file.read()
                archive.writestr(member_like(file.model, file.name), data)
                writer.writerow((file.name, record_hash(data), len(data)))
            writer.writerow((record.name, "", ""))
            archive.writestr(member_like(record.model, record.name), rows.getvalue())
        move_whole(target, path)
