"""A project's source for other machines: one archive, named by its digest, unpacked once on each.

It has the files below the project's folder, except hidden ones, environments, finished `_aot`
folders, and what `.gitignore` or `.aotbuildignore` leave out. Modules that only a `.gitignore`
names are in it: tools write them, as `_version.py`, and the package imports them.
"""

from __future__ import annotations

import io
import os
import shutil
import stat
import time
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES
from pathlib import Path

from pathspec import GitIgnoreSpec

from aotbuild.build.sources import SourceTree
from aotbuild.errors import PlanError
from aotbuild.format.canonical import sha256_hex
from aotbuild.format.index import FOLDER_NAME, INDEX_NAME
from aotbuild.format.temporary import temporary_folder
from aotbuild.toolchains.uv import cache_folder

# Bytes of all files together.
LIMIT = 200_000_000
OWN_RULES = ".aotbuildignore"
# In the order in which they decide.
_RULES = (OWN_RULES, ".gitignore")
_NEVER = frozenset({"__pycache__", "node_modules"})
# What build tools write into a project's folder.
_OUTPUTS = frozenset({"build", "dist"})
_MODULES = tuple({*SOURCE_SUFFIXES, *EXTENSION_SUFFIXES})
_EPOCH = (1980, 1, 1, 0, 0, 0)
_UNIX, _FILE, _PROGRAM = 3, 0o644, 0o755
_SHOWN = 5
# What no build used for so long is removed, in seconds.
_KEPT = 7 * 24 * 3600.0
_FOLDER = "projects"


@dataclass(frozen=True)
class Bundle:
    """A project's source as one archive.

    `import_root` is where in it the package is imported from, `folder` where processes start.
    """

    digest: str
    data: bytes
    import_root: str
    folder: str


def make_bundle(sources: SourceTree) -> Bundle:
    """Return the source of a project; PlanError where it is too large or lies elsewhere."""
    import_root = sources.below(sources.import_root)
    if import_root is None:
        msg = (
            f"other machines get the files below {sources.root}, but {sources.package} is imported "
            f"from {sources.import_root}; build in a folder that contains both (--root)"
        )
        raise PlanError(msg)
    files = sorted(bundled_files(sources.root), key=lambda path: path.as_posix())
    _check_size(sources.root, files)
    data = _archive(sources.root, files)
    # As here, where a program may open its files by relative paths.
    folder = sources.below(Path.cwd()) or "."
    return Bundle(sha256_hex(data), data, import_root, folder)


def bundled_files(root: Path) -> Iterator[Path]:
    """Yield the paths, relative to a project's folder, of what other machines get."""
    yield from _walk(root, Path(), (), {os.path.realpath(root)})


# The rules of a folder, by the folder's path below the project's, and all of those above it.
_Rules = tuple[tuple[Path, tuple[GitIgnoreSpec, ...]], ...]


def _walk(root: Path, folder: Path, above: _Rules, seen: set[str]) -> Iterator[Path]:
    rules = (*above, (folder, tuple(_specs(root / folder))))
    for entry in sorted(os.scandir(root / folder), key=lambda entry: entry.name):
        path = folder / entry.name
        if entry.name.startswith(".") or entry.name in _NEVER:
            continue
        if entry.is_dir():
            real = os.path.realpath(entry.path)
            if real not in seen and _is_source(root, path) and not _left_out(rules, path, "/"):
                yield from _walk(root, path, rules, {*seen, real})
        elif entry.is_file() and not _left_out(rules, path, ""):
            yield path


def _specs(folder: Path) -> Iterator[GitIgnoreSpec]:
    for name in _RULES:
        try:
            lines = (folder / name).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            lines = []
        yield GitIgnoreSpec.from_lines(lines)


def _is_source(root: Path, path: Path) -> bool:
    """Return whether a folder may be source, and not what tools made of it."""
    folder = root / path
    if (folder / "pyvenv.cfg").exists():
        return False
    if path.name == FOLDER_NAME and (folder / INDEX_NAME).exists():
        return False
    is_output = path.parent == Path() and path.name in _OUTPUTS
    return not is_output or (folder / "__init__.py").exists()


def _left_out(rules: _Rules, path: Path, end: str) -> bool:
    """Return whether the rules of any folder above leave a path out; the deepest decide."""
    for number, name in enumerate(_RULES):
        for folder, specs in reversed(rules):
            found = specs[number].check_file(path.relative_to(folder).as_posix() + end).include
            if found is not None:
                return found and (name == OWN_RULES or not path.name.endswith(_MODULES))
    return False


def _check_size(root: Path, files: Iterable[Path]) -> None:
    sizes = {path: (root / path).stat().st_size for path in files}
    total = sum(sizes.values())
    if total <= LIMIT:
        return
    largest = sorted(sizes, key=lambda path: -sizes[path])[:_SHOWN]
    shown = "".join(f"\n  {sizes[path] / 1e6:.1f} MB  {path.as_posix()}" for path in largest)
    msg = (
        f"{root}: other machines would get {total / 1e6:.0f} MB of this project, more than "
        f"{LIMIT / 1e6:.0f} MB; its largest files:{shown}\nList what the build does not read in "
        f"{OWN_RULES}, as in a .gitignore."
    )
    raise PlanError(msg)


def _archive(root: Path, files: Iterable[Path]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for path in files:
            member = zipfile.ZipInfo(path.as_posix(), _EPOCH)
            is_program = (root / path).stat().st_mode & stat.S_IXUSR
            member.create_system = _UNIX
            member.external_attr = (_PROGRAM if is_program else _FILE) << 16
            member.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(member, (root / path).read_bytes(), compresslevel=1)
    return data.getvalue()


# --- on the machine that gets it ------------------------------------------------------------------


def unpacked(digest: str, data: bytes | None) -> Path | None:
    """Return the folder of a bundle on this machine, unpacked now if needed.

    None if it is not here and there is no `data`. Several processes may do this at once.
    """
    place = cache_folder() / _FOLDER / digest
    if not place.is_dir():
        if data is None:
            return None
        if sha256_hex(data) != digest:
            msg = f"the project's source arrived damaged: its SHA-256 is not {digest}"
            raise PlanError(msg)
        _unpack(data, place)
    os.utime(place)
    remove_old(place.parent)
    return place


def _unpack(data: bytes, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(place.parent) as temporary:
        source = temporary / "source"
        source.mkdir()
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for member in archive.infolist():
                path = Path(archive.extract(member, source))
                path.chmod(member.external_attr >> 16)
        try:
            source.rename(place)
        except OSError:
            if not place.is_dir():  # else another process was faster
                raise


def remove_old(folder: Path) -> None:
    """Remove the folders in a folder that no build has used for long."""
    oldest = time.time() - _KEPT
    for path in folder.iterdir():
        with suppress(OSError):  # another process removed it
            if path.stat().st_mtime < oldest:
                shutil.rmtree(path, ignore_errors=True)
