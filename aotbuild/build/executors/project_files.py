"""The project's files that other machines get, as one archive.

They are the files below the project's folder, except hidden ones, environments, finished `_aot`
folders, and what `.gitignore` or `.aotbuildignore` in the project's folder leave out. Modules that
only `.gitignore` names are sent: tools write them, as `_version.py`, and the package imports them.
"""

from __future__ import annotations

import io
import os
import stat
import zipfile
from collections.abc import Iterable, Iterator
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES
from pathlib import Path

from pathspec import GitIgnoreSpec

from aotbuild.errors import PlanError
from aotbuild.format.index import FOLDER_NAME, INDEX_NAME

# Bytes of all files together.
LIMIT = 200_000_000
OWN_RULES = ".aotbuildignore"
_NEVER = frozenset({"__pycache__", "node_modules"})
# What build tools write into a project's folder.
_OUTPUTS = frozenset({"build", "dist"})
_MODULES = tuple({*SOURCE_SUFFIXES, *EXTENSION_SUFFIXES})
_SHOWN = 5


def project_files(root: Path) -> list[Path]:
    """Return the paths of the files that other machines get, relative to the project's folder."""
    own, git = _rules(root / OWN_RULES), _rules(root / ".gitignore")

    def is_left_out(path: Path, is_folder: bool) -> bool:
        text = f"{path.as_posix()}/" if is_folder else path.as_posix()
        found = own.check_file(text).include
        if found is None and not path.name.endswith(_MODULES):
            found = git.check_file(text).include
        return bool(found)

    def walk(folder: Path, above: frozenset[str]) -> Iterator[Path]:
        for entry in sorted(os.scandir(root / folder), key=lambda entry: entry.name):
            path = folder / entry.name
            if entry.name.startswith(".") or entry.name in _NEVER:
                continue
            if entry.is_dir():
                real = os.path.realpath(entry.path)  # a link may lead to a folder above
                if real not in above and _is_source(root, path) and not is_left_out(path, True):
                    yield from walk(path, above | {real})
            elif entry.is_file() and not is_left_out(path, False):
                yield path

    return sorted(walk(Path(), frozenset({os.path.realpath(root)})))


def pack_project(root: Path) -> bytes:
    """Return an archive of the project's files; PlanError if they are too large."""
    files = project_files(root)
    _check_size(root, files)
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path in files:
            archive.write(root / path, path.as_posix())
    return data.getvalue()


def unpack_project(data: bytes, folder: Path) -> None:
    """Unpack an archive into a folder."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for member in archive.infolist():
            path = Path(archive.extract(member, folder))
            if member.external_attr >> 16 & stat.S_IXUSR:
                path.chmod(0o755)


def _rules(file: Path) -> GitIgnoreSpec:
    try:
        return GitIgnoreSpec.from_lines(file.read_text(encoding="utf-8").splitlines())
    except FileNotFoundError:
        return GitIgnoreSpec.from_lines([])


def _is_source(root: Path, path: Path) -> bool:
    """Return whether a folder may be source, and not what tools made of it."""
    folder = root / path
    if (folder / "pyvenv.cfg").exists():
        return False
    if path.name == FOLDER_NAME and (folder / INDEX_NAME).exists():
        return False
    is_output = path.parent == Path() and path.name in _OUTPUTS
    return not is_output or (folder / "__init__.py").exists()


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
