"""Signing a place with a key: verify it, then write the signature atomically."""

from __future__ import annotations

import copy
import csv
import errno
import io
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from aotbuild.errors import UntrustedPackage
from aotbuild.format.archives import RegularZip
from aotbuild.format.files import (
    Kind,
    kind_of,
    move_whole,
    naming,
    read_regular,
    write_where_told,
    write_whole,
)
from aotbuild.format.index import INDEX_NAME
from aotbuild.format.keys import SigningKey
from aotbuild.format.signing import (
    MAX_SEALS_BYTES,
    SEALS_NAME,
    Seal,
    read_seals,
    sealed_message,
    write_seals,
)
from aotbuild.format.temporary import temporary_folder
from aotbuild.runtime.locate import locate
from aotbuild.runtime.seals import read_seals_file
from aotbuild.runtime.wheel_source import WheelSource
from aotbuild.verify.api import CHECK, Examined, Options, SignatureOptions, examine, has_seals
from aotbuild.verify.archive import dist_infos, member_like, record_hash
from aotbuild.verify.outcome import Report, concluded

_CHUNK = 1 << 20


def rewrite(wheel: Path, target: Path, name: str, data: bytes, beside: str) -> None:
    """Write `wheel` to `target` with the file `name` in it, and its row in RECORD.

    An existing file is replaced in its place; a new one comes before RECORD. It gets the time and
    the attributes of the member `beside`, so equal inputs give equal bytes.
    """
    with (
        RegularZip(wheel) as old,
        target.open("wb") as file,
        zipfile.ZipFile(file, "w") as new,
    ):
        record = f"{dist_infos(old)[0]}/RECORD"
        is_new = name not in old.namelist()
        rows = with_row(old.read(record).decode("utf-8"), record, name, data)
        for info, end in _members(old):
            if info.filename == record:
                if is_new:
                    new.writestr(member_like(old.getinfo(beside), name), data)
                new.writestr(member_like(info, record), rows)
            elif info.filename == name:
                new.writestr(member_like(info, name), data)
            else:
                _copy(old, info, end, file, new)


def with_row(text: str, record: str, name: str, data: bytes) -> str:
    """Return a RECORD with the row of one file; all other lines stay as they are."""
    found: list[str] = []
    for line in text.splitlines(keepends=True):
        path = next(csv.reader([line]), [""])[0]
        ending = line[len(line.rstrip("\r\n")) :] or "\n"
        if path == record:
            row = io.StringIO(newline="")
            csv.writer(row, lineterminator=ending).writerow((name, record_hash(data), len(data)))
            found.append(row.getvalue())
        if path != name:
            found.append(line)
    return "".join(found)


def _members(archive: zipfile.ZipFile) -> Iterator[tuple[zipfile.ZipInfo, int]]:
    """Yield every member in file order, with the offset of the next one."""
    infos = sorted(archive.infolist(), key=lambda info: info.header_offset)
    ends = [*(info.header_offset for info in infos[1:]), archive.start_dir]
    yield from zip(infos, ends, strict=True)


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


# Signatures over RECORD itself, as the wheel format once had them: signing would break them.
_OLD_SIGNATURES = (".dist-info/RECORD.jws", ".dist-info/RECORD.p7s")


@dataclass(frozen=True)
class Signed:
    """The result of signing: the checks and, if all passed, the file that was written."""

    report: Report
    written: Path | None = None


def sign(place: Path, key: SigningKey, out: Path | None = None) -> Signed:
    """Sign a wheel or an `_aot` folder in place; with `out`, only write a signature file there.

    Signs nothing that fails a check of `verify`, and loads no native code. Signatures by other keys
    stay. Raises PackageNotFound, NoArtifacts, or OSError if a file cannot be read or written, or if
    `out` is a file that is not a signature file.
    """
    if out is not None:
        _check_replaceable(out)
    # What may be loaded here (AOTBUILD_TRUST) does not decide what may be signed.
    before = examine(place, Options(signature=SignatureOptions(operator=False)))
    if before.failed:
        return Signed(before.report(str(place)))
    new = key.seal(sealed_message(before.contents.data))
    if out is None and before.path.endswith(".whl"):
        return _sign_wheel(place, before, key, new)
    written = out or Path(before.path, SEALS_NAME)
    if out:
        write_where_told(out, write_seals([new]))
    else:
        write_whole(written, _with_others(place, new))
    return Signed(before.report(str(place)), written)


def _check_replaceable(out: Path) -> None:
    """Raise FileExistsError for a file other than a signature file, such as a key or a wheel."""
    if not out.exists() or kind_of(out) is not Kind.FILE:
        return
    try:
        read_seals(read_regular(out, MAX_SEALS_BYTES), str(out))
    except UntrustedPackage as err:
        reason = "is there already and is no signature file; name another"
        raise FileExistsError(errno.EEXIST, reason, str(out)) from err


def _sign_wheel(wheel: Path, before: Examined, key: SigningKey, new: Seal) -> Signed:
    with RegularZip(wheel) as archive:
        old = [name for name in archive.namelist() if name.endswith(_OLD_SIGNATURES)]
    if old:
        reason = f"{old[0]} signs RECORD, which one more file changes; use --out"
        outcomes = (*before.outcomes, concluded(CHECK, wheel.name, [reason]))
        return Signed(Examined(outcomes, before.contents, before.path).report(str(wheel)))
    with closing(WheelSource(wheel)) as source:
        folder = source.place.removeprefix(f"{wheel}/")
    real = wheel.resolve()  # the file that a link leads to, not the link
    with temporary_folder(real.parent) as temporary:
        target = temporary / wheel.name
        seals = _with_others(wheel, new)
        with naming(real):
            rewrite(wheel, target, f"{folder}/{SEALS_NAME}", seals, f"{folder}/{INDEX_NAME}")
        shutil.copymode(wheel, target)
        # Even if the wheel has changed meanwhile, its replacement is complete and signed.
        mine = SignatureOptions([key.public_pem], operator=False)
        after = examine(target, Options(signature=mine))
        if not after.failed:
            move_whole(target, real)
    return Signed(after.report(str(wheel)), None if after.failed else wheel)


def _with_others(place: Path, new: Seal) -> bytes:
    """Return the signature file of a place with the new signature added or renewed."""
    with closing(locate(place)) as source:
        name = f"{source.place}/{SEALS_NAME}"
        old = read_seals(read_seals_file(source), name) if has_seals(source) else ()
    return write_seals([new, *(seal for seal in old if seal.key_id != new.key_id)])
