"""RECORD and `.dist-info` of a wheel, as the binary distribution format specifies them.

https://packaging.python.org/specifications/binary-distribution-format and
https://packaging.python.org/specifications/recording-installed-packages
"""

from __future__ import annotations

import base64
import csv
import hashlib
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

_UNLISTED = ("RECORD.jws", "RECORD.p7s")
_HASHES = ("sha256", "sha384", "sha512")
_CHUNK = 1 << 20
_MAX_TEXT = 16 << 20
_NEEDED = ("METADATA", "RECORD", "WHEEL")
_UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError, OSError)


def dist_infos(archive: zipfile.ZipFile) -> list[str]:
    """Return the names of the `.dist-info` folders at the top of a wheel."""
    tops = {name.partition("/")[0] for name in archive.namelist() if "/" in name}
    return sorted(top for top in tops if top.lower().endswith(".dist-info"))


def dist_info_problems(archive: zipfile.ZipFile, wheel: Path) -> Iterator[str]:
    """Yield the problems of a wheel's `.dist-info` and of its file name."""
    found = dist_infos(archive)
    if len(found) != 1:
        yield f"expected one .dist-info folder, found {', '.join(found) or 'none'}"
        return
    names = set(archive.namelist())
    yield from (f"{found[0]}/{n} is missing" for n in _NEEDED if f"{found[0]}/{n}" not in names)
    expected = _identity(wheel.name.split("-")[:2])
    stated = _identity(found[0].removesuffix(".dist-info").split("-"))
    if stated != expected:
        yield f"{found[0]} is not of {wheel.name}: expected {expected}, found {stated}"


def read_metadata(archive: zipfile.ZipFile, name: str) -> str:
    """Return a text file of the `.dist-info`; ValueError if it cannot be read."""
    try:
        path = f"{dist_infos(archive)[0]}/{name}"
        with archive.open(path) as file:
            data = file.read(_MAX_TEXT + 1)
        if len(data) > _MAX_TEXT:
            msg = f"{path}: more than {_MAX_TEXT} bytes"
            raise ValueError(msg)
        return data.decode("utf-8")
    except (KeyError, IndexError, *_UNREADABLE) as err:
        msg = f"{name} cannot be read: {err}"
        raise ValueError(msg) from err


def record_problems(archive: zipfile.ZipFile) -> Iterator[str]:
    """Yield every way in which RECORD and the files differ."""
    record = f"{dist_infos(archive)[0]}/RECORD"
    try:
        rows = list(csv.reader(read_metadata(archive, "RECORD").splitlines(), strict=True))
    except (ValueError, csv.Error) as err:
        yield f"RECORD: {err}"
        return
    listed: dict[str, tuple[str, str]] = {}
    for number, row in enumerate(rows, 1):
        if len(row) != 3:
            yield f"RECORD line {number}: expected path, hash and size, found {row}"
        elif row[0] in listed:
            yield f"{row[0]!r} is listed twice"
        else:
            listed[row[0]] = (row[1], row[2])
    files = {info.filename: info for info in archive.infolist() if not info.is_dir()}
    yield from (f"{name!r} is listed, but not there" for name in sorted(set(listed) - set(files)))
    for name, info in files.items():
        if name == record:
            yield from _own_row(listed.get(name))
        elif name in listed:
            reason = _compare(archive, info, *listed[name])
            if reason:
                yield f"{name!r}: {reason}"
        elif name not in [f"{record.rpartition('/')[0]}/{other}" for other in _UNLISTED]:
            yield f"{name!r} is there, but not listed"


def _own_row(row: tuple[str, str] | None) -> Iterator[str]:
    if row is None:
        yield "RECORD does not list itself"
    elif row[0]:
        yield "RECORD states a hash of itself, which cannot be right"


def _compare(archive: zipfile.ZipFile, info: zipfile.ZipInfo, stated: str, size: str) -> str | None:
    """Return how a file differs from its row, or None."""
    kind, _, expected = stated.partition("=")
    if kind not in _HASHES:
        return f"expected a hash of {', '.join(_HASHES)}, found {stated!r}"
    if size and (not size.isascii() or not size.isdigit() or int(size) != info.file_size):
        return f"expected {size} bytes, found {info.file_size}"
    try:
        found = _hash(archive, info, kind)
    except _UNREADABLE as err:
        return f"cannot be read: {err}"
    return None if found == expected else f"expected {kind}={expected}, found {kind}={found}"


def _hash(archive: zipfile.ZipFile, info: zipfile.ZipInfo, kind: str) -> str:
    digest, size = hashlib.new(kind), 0
    with archive.open(info) as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    if size != info.file_size:
        msg = f"expected {info.file_size} bytes, found {size}"
        raise ValueError(msg)
    return base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode()


def _identity(parts: list[str]) -> str:
    """Return `name version` in normal form, as PEP 503 and PEP 440 compare them."""
    from packaging.utils import canonicalize_name
    from packaging.version import InvalidVersion, Version

    if len(parts) != 2:
        return "-".join(parts)
    try:
        version = str(Version(parts[1].replace("_", "+")))
    except InvalidVersion:
        version = parts[1]
    return f"{canonicalize_name(parts[0])} {version}"
