"""Adding a file to a finished wheel: its other members stay as they are, byte by byte.

Works on wheels that pass the checks of `verify.archive`: every byte of such a file belongs to one
member or to the central directory.
"""

from __future__ import annotations

import base64
import copy
import csv
import hashlib
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from aotbuild.verify.archive.wheel_record import dist_infos

_CHUNK = 1 << 20


def rewrite(wheel: Path, target: Path, name: str, data: bytes, beside: str) -> None:
    """Write `wheel` to `target` with the file `name` in it, and its row in RECORD.

    One of that name is replaced in its place; a new one comes before RECORD. It gets the time and
    the attributes of the member `beside`, so equal inputs give equal bytes.
    """
    with (
        zipfile.ZipFile(wheel) as old,
        target.open("wb") as file,
        zipfile.ZipFile(file, "w") as new,
    ):
        record = f"{dist_infos(old)[0]}/RECORD"
        is_new = name not in old.namelist()
        rows = with_row(old.read(record).decode("utf-8"), record, name, data)
        for info, end in _members(old):
            if info.filename == record:
                if is_new:
                    new.writestr(_like(old.getinfo(beside), name), data)
                new.writestr(_like(info, record), rows)
            elif info.filename == name:
                new.writestr(_like(info, name), data)
            else:
                _copy(old, info, end, file, new)


def with_row(text: str, record: str, name: str, data: bytes) -> str:
    """Return a RECORD with the row of one file; all other lines stay as they are."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    found: list[str] = []
    for line in text.splitlines(keepends=True):
        path = next(csv.reader([line]), [""])[0]
        ending = line[len(line.rstrip("\r\n")) :] or "\n"
        if path == record:
            row = io.StringIO(newline="")
            csv.writer(row, lineterminator=ending).writerow((name, f"sha256={digest}", len(data)))
            found.append(row.getvalue())
        if path != name:
            found.append(line)
    return "".join(found)


def _members(archive: zipfile.ZipFile) -> Iterator[tuple[zipfile.ZipInfo, int]]:
    """Yield every member in the order of the file, and where the next one begins."""
    infos = sorted(archive.infolist(), key=lambda info: info.header_offset)
    ends = [*(info.header_offset for info in infos[1:]), archive.start_dir]
    yield from zip(infos, ends, strict=True)


def _like(model: zipfile.ZipInfo, name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, model.date_time)
    info.compress_type, info.external_attr = model.compress_type, model.external_attr
    info.create_system = model.create_system
    return info


def _copy(
    old: zipfile.ZipFile, info: zipfile.ZipInfo, end: int, file: IO[bytes], new: zipfile.ZipFile
) -> None:
    """Copy the local header, data and descriptor of a member, and enter it into the directory."""
    assert old.fp is not None
    old.fp.seek(info.header_offset)
    moved = copy.copy(info)
    moved.header_offset = file.tell()
    left = end - info.header_offset
    while left:
        chunk = old.fp.read(min(left, _CHUNK))
        if not chunk:
            msg = f"{old.filename}: changed while it was being copied"
            raise OSError(msg)
        file.write(chunk)
        left -= len(chunk)
    new.filelist.append(moved)
    new.NameToInfo[moved.filename] = moved
    new.start_dir = file.tell()
