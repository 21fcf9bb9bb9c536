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
from collections.abc import Iterable, Iterator
from contextlib import suppress
from email.parser import HeaderParser
from pathlib import Path

from aotbuild.format.archives import RegularZip
from aotbuild.format.index import FOLDER_NAME
from aotbuild.verify.outcome import Outcome, concluded, not_checked
from aotbuild.verify.specifiers import Version, normalized, parse_version
from aotbuild.verify.zip_layout import (
    UNREADABLE,
    Limits,
    layout_problems,
    member_problems,
    unpacked,
)

CHECKS = ("zip", "members", "names", "dist-info", "RECORD")
_SHOWN = 20
_UNLISTED = ("RECORD.jws", "RECORD.p7s")
_HASHES = ("sha256", "sha384", "sha512")
_MAX_TEXT = 16 << 20
_NEEDED = ("METADATA", "RECORD", "WHEEL")
# Device names of Windows, also with an extension.
# https://learn.microsoft.com/windows/win32/fileio/naming-a-file
_DEVICES = frozenset(
    {"con", "prn", "aux", "nul", "conin$", "conout$"}
    | {f"{port}{n}" for port in ("com", "lpt") for n in "123456789\u00b9\u00b2\u00b3"}
)
_RESERVED = frozenset('?*<>|"')
# Bytes of a name on common file systems, and of a path on macOS.
_MOST_NAME, _MOST_PATH = 255, 1024
# Folders of X.data whose files are installed beside the others.
_LIBRARIES = ("purelib", "platlib")
_SITES = ("site-packages", "dist-packages")
_SPECIAL_BITS = stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX


def check_archive(wheel: Path, limits: Limits) -> tuple[Outcome, ...]:
    """Check a wheel as an archive; raises OSError if it cannot be opened."""
    try:
        with RegularZip(wheel) as archive:
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
        (name != info.filename, f"Python reads it as {info.filename!r}"),
        (any(unicodedata.category(char) == "Cf" for char in name), "an invisible character"),
        (not _RESERVED.isdisjoint(name), "a character that Windows reserves"),
        (any(part.endswith((" ", ".")) for part in parts), "ends with a space or a dot"),
        (any(_stem(part) in _DEVICES for part in parts), "a device on Windows"),
        (_is_long(name, parts), f"above {_MOST_NAME} bytes, or {_MOST_PATH} in all"),
        (_replaces_executables(name), f"is installed into {FOLDER_NAME}, after all checks"),
        (not name.isascii() and not info.flag_bits & 0x800, "its encoding is not stated"),
    )
    return next((reason for is_wrong, reason in checks if is_wrong), None)


def _stem(part: str) -> str:
    return part.split(".")[0].rstrip(" ").lower()


def _is_long(name: str, parts: list[str]) -> bool:
    sizes = [len(text.encode("utf-8", "surrogatepass")) for text in (name, *parts)]
    return sizes[0] > _MOST_PATH or max(sizes[1:]) > _MOST_NAME


def _replaces_executables(name: str) -> bool:
    target = _installed(name)
    return target != name and FOLDER_NAME in _folded(target).split("/")


def _installed(name: str) -> str:
    """Return where a member is installed, relative to the packages.

    https://packaging.python.org/specifications/binary-distribution-format#the-data-directory
    """
    top, scheme, *rest = [*name.split("/", 2), ""][:3]
    target = "/".join(rest)
    if not target or not top.lower().endswith(".data"):
        return name
    if scheme.lower() in _LIBRARIES:
        return target
    parts = target.split("/")
    # The folder of the environment, in which that of the packages is.
    at = next((i for i, part in enumerate(parts) if part.lower() in _SITES), None)
    inside = "" if at is None or scheme.lower() != "data" else "/".join(parts[at + 1 :])
    return inside or name


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
    """Yield names that are the same file on some file system, or once they are installed."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(_folded(_installed(name)), []).append(name)
    for group in groups.values():
        first, *others = sorted(set(group))
        if others:
            is_moved = any(_installed(name) != name for name in group)
            if is_moved and all(name.endswith("/") for name in group):
                continue  # one folder, which two places put files into
            shown = " and ".join(map(repr, (first, *others)))
            reason = (
                "are installed to one place" if is_moved else "differ only in case or Unicode form"
            )
            yield f"{shown} {reason}"
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
    yield from _metadata_problems(archive, wheel, expected)


def _metadata_problems(archive: zipfile.ZipFile, wheel: Path, expected: list[str]) -> Iterator[str]:
    """Yield how METADATA contradicts the name of the file; installers believe either."""
    try:
        stated = HeaderParser().parsestr(read_metadata(archive, "METADATA"))
    except ValueError as err:
        yield f"METADATA: {err}"
        return
    for field in ("Name", "Version"):
        values = stated.get_all(field) or []
        if len(values) != 1:
            yield f"METADATA: expected one {field}, found {len(values)}"
            return
    found = [str(stated["Name"]), str(stated["Version"])]
    if _identity(found) != _identity(expected):
        words = f"expected {' '.join(expected)}, found {' '.join(found)}"
        yield f"METADATA is not of {wheel.name}: {words}"


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
    except (KeyError, IndexError, *UNREADABLE) as err:
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
    unlisted = [f"{dist_infos(archive)[0]}/{name}" for name in _UNLISTED]
    yield from (f"{name!r} is listed, but not there" for name in sorted(set(listed) - set(files)))
    for name, info in files.items():
        if name != record and name in listed:
            reason = _compare(archive, info, *listed[name])
        else:
            reason = _unlisted_problem(archive, info)
        if reason:
            yield f"{name!r}: {reason}"
        if name == record:
            yield from _own_row(listed.get(name))
        elif name not in listed and name not in unlisted:
            yield f"{name!r} is there, but not listed"


def _own_row(row: tuple[str, str] | None) -> Iterator[str]:
    if row is None:
        yield "RECORD does not list itself"
    elif row[0]:
        yield "RECORD states a hash of itself, which cannot be right"


def _unlisted_problem(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> str | None:
    """Return why a file that has no hash cannot be read, or None."""
    try:
        _hash(archive, info, _HASHES[0])
    except UNREADABLE as err:
        return f"cannot be read: {err}"
    return None


def _compare(archive: zipfile.ZipFile, info: zipfile.ZipInfo, stated: str, size: str) -> str | None:
    """Return how a file differs from its row, or None."""
    kind, _, expected = stated.partition("=")
    if kind not in _HASHES:
        return f"expected a hash of {', '.join(_HASHES)}, found {stated!r}"
    # As text: Python refuses to read a number of thousands of digits.
    is_size = size.isascii() and size.isdigit()
    if size and not (is_size and (size.lstrip("0") or "0") == str(info.file_size)):
        return f"expected {size} bytes, found {info.file_size}"
    try:
        found = _hash(archive, info, kind)
    except UNREADABLE as err:
        return f"cannot be read: {err}"
    return None if found == expected else f"expected {kind}={expected}, found {kind}={found}"


def _hash(archive: zipfile.ZipFile, info: zipfile.ZipInfo, kind: str) -> str:
    assert archive.fp is not None
    digest = hashlib.new(kind)
    for chunk in unpacked(archive.fp, info):
        digest.update(chunk)
    return _encoded(digest.digest())


def _identity(parts: list[str]) -> tuple[str | Version, ...]:
    """Return a name and a version, as PEP 503 and PEP 440 compare them."""
    name, *rest = parts
    with suppress(ValueError):
        return normalized(name), *(parse_version(part.replace("_", "+")) for part in rest)
    return tuple(parts)
