"""Refuse a wheel that holds executables of an earlier build which are older than their sources.

What `aotbuild build --in-place` wrote for the package of this manifest is left out, because the
hook makes it anew. Other packages with `_aot` folders, and all of them where the hook is switched
off, are shipped as they are, if they are what their sources say.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from zipfile import ZipFile

from aotbuild.errors import AotbuildError, PlanError
from aotbuild.format.index import FOLDER_NAME, INDEX_NAME, MOST_INDEX, Index
from aotbuild.format.sources import read_sources
from aotbuild.report.words import printable

_SHOWN = 3
# The wheels of this process that a hook has looked at.
checked: set[Path] = set()


def refuse_stale(wheel: Path, root: Path, own: str = "") -> None:
    """Raise PlanError if a package in a wheel is older than its sources in the project at `root`.

    `own` is the index that the hook has just made.
    """
    with ZipFile(wheel) as archive:
        problems = [*_problems(archive, root, own)]
    if problems:
        msg = (
            f"{wheel.name}: {problems[0]}\n"
            "Make it again (aotbuild build --in-place), or remove the folder. The wheel is removed."
        )
        raise PlanError(msg)
    checked.add(wheel.resolve())


def _problems(archive: ZipFile, root: Path, own: str) -> Iterator[str]:
    for info in archive.infolist():
        name = info.filename
        if name == own or PurePosixPath(name).parts[-2:] != (FOLDER_NAME, INDEX_NAME):
            continue
        folder = printable(name.removesuffix(f"/{INDEX_NAME}"))
        try:
            if info.file_size > MOST_INDEX:
                yield f"{folder} has an index of {info.file_size:,} bytes"
                continue
            known = read_sources(Index.open(archive.read(name), name).header)
        except (AotbuildError, ValueError) as err:
            yield f"{folder} cannot be read: {str(err).splitlines()[0]}"
            continue
        # Without them it is another project's.
        if known and any((root / module).is_file() for module in known.modules):
            changed = known.changed(root)
            if changed:
                more = ", …" if len(changed) > _SHOWN else ""
                named = printable(", ".join(changed[:_SHOWN])) + more
                yield f"{folder} is of an earlier build, and older than its sources: {named}"
