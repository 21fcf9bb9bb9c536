"""A wheel as an archive, before anything in it is trusted: names, `.dist-info` and RECORD.

The zip structure itself is checked in `zip_layout`. The formats are specified in
https://packaging.python.org/specifications/binary-distribution-format and
https://packaging.python.org/specifications/recording-installed-packages
"""

from __future__ import annotations

import base64
import csv
import hashlib
import stat
import unicodedata
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from aotbuild.verify.outcome import Outcome, concluded, not_checked
from aotbuild.verify.specifiers import Version, normalized, parse_version
from aotbuild.verify.zip_layout import Limits, layout_problems, member_problems

CHECKS = ("zip", "members", "names", "dist-info", "RECORD")
_SHOWN = 20
_UNLISTED = ("RECORD.jws", "RECORD.p7s")
_HASHES = ("sha256", "sha384", "sha512")
_CHUNK = 1 << 20
_MAX_TEXT = 16 << 20
_NEEDED = ("METADATA", "RECORD", "WHEEL")
_UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError, OSError)
# Device names of Windows, also with an extension.
# https://learn.microsoft.com/windows/win32/fileio/naming-a-file
_DEVICES = frozenset(
    {"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))}
)
_SPECIAL_BITS = stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX


def check_archive(wheel: Path, limits: Limits) -> tuple[Outcome, ...]:
    """Check a wheel as an archive; raises OSError if it cannot be opened."""
    with wheel.open("rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                return tuple(_check(archive, wheel, limits))
        except (zipfile.BadZipFile, NotImplementedError, ValueError, UnicodeError) as err:
            return (_concluded("zip", wheel, [f"not a zip file that can be read: {err}"]),)


def _check(archive: zipfile.ZipFile, wheel: Path, limits: Limits) -> Iterator[Outcome]:
    file = archive.fp
    assert file is not None
    yield (layout := _concluded("zip", wheel, layout_problems(file, archive)))
    yield (members := _concluded("members", wheel, member_problems(archive, limits)))
    yield (names := _concluded("names", wheel, name_problems(archive.infolist())))
    yield (info := _concluded("dist-info", wheel, dist_info_problems(archive, wheel)))
    failed = [o.check for o in (layout, members, names, info) if o.status.is_failure]
    if failed:
        yield not_checked("RECORD", wheel.name, f"the check {failed[0]} failed, nothing is read")
    else:
        yield _concluded("RECORD", wheel, record_problems(archive))


def _concluded(check: str, wheel: Path, problems: Iterable[str]) -> Outcome:
    """Return the outcome with the first problems; a hostile wheel may have a million."""
    problems = list(problems)
    if len(problems) > _SHOWN:
        problems = [*problems[:_SHOWN], f"and {len(problems) - _SHOWN} more"]
    return concluded(check, wheel.name, problems)


def name_problems(infos: Iterable[zipfile.ZipInfo]) -> Iterator[str]:
    """Yield every name that leaves the tree, is not portable, or occurs twice."""
    infos = list(infos)
    for info in infos:
        reason = _path_problem(info) or _attribute_problem(info)
        if reason:
            yield f"{info.orig_filename!r}: {reason}"
    yield from _twins([info.orig_filename for info in infos])


def _path_problem(info: zipfile.ZipInfo) -> str | None:
    name = info.orig_filename
    parts = name.removesuffix("/").split("/")
    checks = (
        (name.startswith("/"), "an absolute path"),
        ("\\" in name, "a backslash, which is a separator on Windows"),
        (":" in name, "a colon, which names a drive or a stream on Windows"),
        (any(part in ("", ".", "..") for part in parts), "a path that is not plain (., .. or //)"),
        (any(unicodedata.category(char) == "Cc" for char in name), "a control character"),
        (any(part.endswith((" ", ".")) for part in parts), "ends with a space or a dot"),
        (any(part.split(".")[0].lower() in _DEVICES for part in parts), "a device on Windows"),
        (not name.isascii() and not info.flag_bits & 0x800, "its encoding is not stated"),
    )
    return next((reason for is_wrong, reason in checks if is_wrong), None)


def _attribute_problem(info: zipfile.ZipInfo) -> str | None:
    mode = info.external_attr >> 16
    kind = stat.S_IFMT(mode)
    is_folder = info.orig_filename.endswith("/")
    if kind not in (0, stat.S_IFDIR if is_folder else stat.S_IFREG):
        what = {stat.S_IFLNK: "a symbolic link", stat.S_IFDIR: "a folder"}.get(kind, "a device")
        return f"{what} by its attributes (mode {mode:o})"
    if mode & _SPECIAL_BITS:
        return f"setuid, setgid or sticky (mode {mode:o})"
    if is_folder and (info.file_size or info.compress_size):
        return "a folder with contents"
    return None


def _twins(names: list[str]) -> Iterator[str]:
    """Yield names that are the same file on some file system."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(_folded(name), []).append(name)
    for group in groups.values():
        first, *others = sorted(set(group))
        if others:
            shown = " and ".join(map(repr, (first, *others)))
            yield f"{shown} differ only in case or Unicode form"
        elif len(group) > 1:
            yield f"{first!r} is there {len(group)} times"
    yield from _inside_files(groups)


def _inside_files(groups: dict[str, list[str]]) -> Iterator[str]:
    files = {key for key, names in groups.items() if not all(n.endswith("/") for n in names)}
    for key, names in groups.items():
        parts = key.split("/")
        above = next((p for i in range(1, len(parts)) if (p := "/".join(parts[:i])) in files), None)
        if above is not None:
            yield f"{names[0]!r} is inside {above!r}, which is a file"


def _folded(name: str) -> str:
    folded = unicodedata.normalize("NFKC", name).casefold()
    return unicodedata.normalize("NFKC", folded).removesuffix("/")


def dist_infos(archive: zipfile.ZipFile) -> list[str]:
    """Return the names of the `.dist-info` folders at the top of a wheel."""
    tops = {name.partition("/")[0] for name in archive.namelist() if "/" in name}
    return sorted(top for top in tops if top.lower().endswith(".dist-info"))


def member_like(model: zipfile.ZipInfo, name: str) -> zipfile.ZipInfo:
    """Return a new member with the time, the attributes and the compression of another."""
    member = zipfile.ZipInfo(name, model.date_time)
    member.compress_type, member.external_attr = model.compress_type, model.external_attr
    member.create_system = model.create_system
    return member


def record_hash(data: bytes) -> str:
    """Return the hash of a file as RECORD writes it: `sha256=…`."""
    return f"sha256={_encoded(hashlib.sha256(data).digest())}"


def _encoded(digest: bytes) -> str:
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def dist_info_problems(archive: zipfile.ZipFile, wheel: Path) -> Iterator[str]:
    """Yield the problems of a wheel's `.dist-info` and of its file name."""
    found = dist_infos(archive)
    if len(found) != 1:
        yield f"expected one .dist-info folder, found {', '.join(found) or 'none'}"
        return
    names = set(archive.namelist())
    yield from (f"{found[0]}/{n} is missing" for n in _NEEDED if f"{found[0]}/{n}" not in names)
    expected = wheel.name.split("-")[:2]
    stated = found[0].removesuffix(".dist-info").split("-")
    if _identity(stated) != _identity(expected):
        words = f"expected {' '.join(expected)}, found {' '.join(stated)}"
        yield f"{found[0]} is not of {wheel.name}: {words}"


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
    return _encoded(digest.digest())


def _identity(parts: list[str]) -> tuple[str | Version, ...]:
    """Return a name and a version, as PEP 503 and PEP 440 compare them."""
    name, *rest = parts
    with suppress(ValueError):
        return normalized(name), *(parse_version(part.replace("_", "+")) for part in rest)
    return tuple(parts)
