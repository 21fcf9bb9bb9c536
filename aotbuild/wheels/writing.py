"""Writing a wheel: files in order, RECORD last, equal bytes from equal contents."""

from __future__ import annotations

import base64
import csv
import errno
import hashlib
import io
import tempfile
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from aotbuild.spec.layout import move_whole


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
    with tempfile.TemporaryDirectory(prefix=".aotbuild-", dir=path.parent) as temporary:
        target = Path(temporary, path.name)
        rows = io.StringIO(newline="")
        writer = csv.writer(rows, lineterminator="\n")
        with zipfile.ZipFile(target, "w") as archive:
            for file in files:
                data = file.read()
                archive.writestr(_member(file), data)
                writer.writerow((file.name, _hash(data), len(data)))
            writer.writerow((record.name, "", ""))
            archive.writestr(_member(record), rows.getvalue())
        move_whole(target, path)


def _member(file: File) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(file.name, file.model.date_time)
    member.compress_type, member.external_attr = file.model.compress_type, file.model.external_attr
    member.create_system = file.model.create_system
    return member


def _hash(data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
    return f"sha256={digest.decode()}"
