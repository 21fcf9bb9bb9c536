"""A wheel to be written: files that it takes over, and a new `_aot` folder."""

from __future__ import annotations

import base64
import csv
import errno
import hashlib
import io
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aotbuild.format.files import move_whole, naming
from aotbuild.format.index import INDEX_NAME, write_index
from aotbuild.format.record import Record
from aotbuild.format.signature import Function
from aotbuild.format.temporary import temporary_folder
from aotbuild.wheels.opened import Built, File, WheelName, made


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

    `before` and `behind` are files around its `_aot` folder, which is at `place`. `changed`
    replaces or adds files, by their names below `.dist-info`. New files get the time and the
    attributes of `model`.
    """

    name: WheelName
    info: str
    model: zipfile.ZipInfo
    before: Sequence[File]
    place: str
    folder: NewFolder
    behind: Sequence[File] = ()
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
                archive.writestr(_member_like(self._model_of_record(), record), rows.getvalue())
            move_whole(target, path)
        return path

    def _ordered(self) -> Iterator[File]:
        """Yield files in the order of a build: code, `_aot`, data, and `.dist-info` at the end."""
        changed = {f"{self.info}/{name}": data for name, data in self.changed.items()}
        last = f"{self.info}/extra_metadata/"
        yield from self.before
        for name, data in self.folder.files():
            yield made(f"{self.place}{name}", self.model, data)
        for file in self.behind:
            if not file.name.startswith(last):
                yield file.replaced(changed.pop(file.name)) if file.name in changed else file
        yield from (made(name, self.model, data) for name, data in changed.items())
        yield from (file for file in self.behind if file.name.startswith(last))

    def _model_of_record(self) -> zipfile.ZipInfo:
        """RECORD is written like METADATA, and not like the files of a project."""
        stated = (file.model for file in self.behind if file.name == f"{self.info}/METADATA")
        return next(stated, self.model)


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
