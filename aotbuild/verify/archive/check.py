"""The checks of a wheel as an archive: zip structure, names, `.dist-info` and RECORD."""

from __future__ import annotations

import stat
import unicodedata
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from aotbuild.verify.archive.wheel_record import dist_info_problems, record_problems
from aotbuild.verify.archive.zip_layout import Limits, layout_problems, member_problems
from aotbuild.verify.outcome import Outcome, concluded, not_checked

# Device names of Windows, also with an extension.
# https://learn.microsoft.com/windows/win32/fileio/naming-a-file
_DEVICES = frozenset(
    {"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))}
)
_SPECIAL_BITS = stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX


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


CHECKS = ("zip", "members", "names", "dist-info", "RECORD")
_SHOWN = 20


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
