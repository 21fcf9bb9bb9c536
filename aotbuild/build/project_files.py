"""The files of a project: their digests, and the archive of them that other machines get.

Outputs of builds, hidden folders and environments are no files of a project. Other machines get
neither hidden files nor what the project's `.gitignore` leaves out, except for modules: tools write
them, as `_version.py`, and the package imports them.
"""

from __future__ import annotations

import io
import os
import stat
import zipfile
from collections.abc import Iterable, Iterator
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES
from pathlib import Path

from aotbuild.errors import PlanError
from aotbuild.format.files import file_digest
from aotbuild.format.index import FOLDER_NAME

# A folder with more is no project: a home, or a disk of data. Reading it would take too long.
MOST_FILES = 20_000
MOST_BYTES = 4 << 30
# What other machines get at most, in bytes.
LIMIT = 200_000_000
# Folders of libraries, in which only what is installed counts.
LIBRARIES = frozenset(("site-packages", "dist-packages"))
# Outputs of builds, in any folder and in the project's own. Hidden folders hold caches and
# environments.
_OUTPUTS = LIBRARIES | {FOLDER_NAME, "__pycache__", "node_modules"}
_OUTPUTS_OF_PROJECT = frozenset(("build", "dist"))
_OUTPUT_SUFFIXES = (".pyc", ".whl", ".egg-info")
_MODULES = tuple({*SOURCE_SUFFIXES, *EXTENSION_SUFFIXES})
_SHOWN = 5


class TooLarge(Exception):
    """A folder has so many files that no key is made of them."""


def walk_project(root: Path, apart: Iterable[Path] = ()) -> Iterator[Path]:
    """Yield the project's files below `root`, without the folders `apart`; links are followed.

    A folder has its own path always, and that of a link that was found before it.
    """
    left_out = {os.path.realpath(path) for path in apart}
    seen = {os.path.realpath(root), *left_out}
    for place, folders, names in os.walk(root, followlinks=True):
        kept = {
            name: os.path.realpath(Path(place, name))
            for name in sorted(folders)
            if not _is_output(Path(place, name), is_top=place == str(root))
        }
        folders[:] = [
            name
            for name, real in kept.items()
            if real not in (seen if Path(place, name).is_symlink() else left_out)
        ]
        seen.update(kept.values())
        yield from (Path(place, n) for n in sorted(names) if not n.endswith(_OUTPUT_SUFFIXES))


def is_walked(root: Path, folder: Path) -> bool:
    """Return whether `walk_project` comes to a folder, which it does not if it is an output."""
    real, top = Path(os.path.realpath(folder)), Path(os.path.realpath(root))
    if not real.is_relative_to(top):
        return False
    between = [real, *real.parents][: len(real.parts) - len(top.parts)]
    return not any(_is_output(each, is_top=each.parent == top) for each in between)


def _is_output(folder: Path, *, is_top: bool) -> bool:
    """Return whether a folder has what builds and tools write, or is an environment."""
    name = folder.name
    if name in _OUTPUTS or name.startswith(".") or name.endswith(_OUTPUT_SUFFIXES):
        return True
    if is_top and name in _OUTPUTS_OF_PROJECT:
        return not (folder / "__init__.py").is_file()
    return (folder / "pyvenv.cfg").is_file()


def project_files(root: Path, apart: Iterable[Path] = ()) -> dict[str, str]:
    """Return the digest of each file of a project, by its path with slashes.

    TooLarge where there are too many files.
    """
    found: dict[str, str] = {}
    size = 0
    for path in walk_project(root, apart):
        # A name may have bytes that are no text.
        name = os.fsencode(path.relative_to(root)).decode("utf-8", "backslashreplace")
        try:
            facts = path.stat()
            if not stat.S_ISREG(facts.st_mode):
                continue
            size += facts.st_size
            if len(found) >= MOST_FILES or size > MOST_BYTES:
                raise TooLarge(str(root))
            found[name] = file_digest(path)
        except OSError as err:  # a link that leads nowhere, or a file that may not be read
            found[name] = type(err).__name__
    return found


def pack_project(root: Path) -> bytes:
    """Return an archive of what other machines get of a project; PlanError if it is too large."""
    files = _sent_files(root)
    total = sum(files.values())
    if total > LIMIT:
        largest = sorted(files, key=lambda path: -files[path])[:_SHOWN]
        shown = "".join(f"\n  {files[p] / 1e6:.1f} MB  {p.relative_to(root)}" for p in largest)
        msg = (
            f"{root}: other machines would get {total / 1e6:.0f} MB of this project, more than "
            f"{LIMIT / 1e6:.0f} MB; its largest files:{shown}\nList what the build does not read "
            "in .gitignore."
        )
        raise PlanError(msg)
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path in files:
            archive.write(path, path.relative_to(root).as_posix())
    return data.getvalue()


def _sent_files(root: Path) -> dict[Path, int]:
    """Return the size of each file that other machines get."""
    from pathspec import GitIgnoreSpec  # only builds on other machines need it

    rules = root / ".gitignore"
    ignored = GitIgnoreSpec.from_lines(
        rules.read_text("utf-8").splitlines() if rules.is_file() else []
    )
    found = {}
    for path in walk_project(root):
        name = path.relative_to(root).as_posix()
        is_left_out = ignored.match_file(name) and not name.endswith(_MODULES)
        if path.is_file() and not path.name.startswith(".") and not is_left_out:
            found[path] = path.stat().st_size
    return found


def unpack_project(data: bytes, folder: Path) -> None:
    """Unpack an archive into a folder."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for member in archive.infolist():
            path = Path(archive.extract(member, folder))
            if member.external_attr >> 16 & stat.S_IXUSR:
                path.chmod(0o755)
