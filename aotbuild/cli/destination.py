"""Files that a command was told to write: they replace nothing but its own earlier outputs."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

from aotbuild.cli.output import write_bytes
from aotbuild.format.files import Kind, kind_of, open_regular, write_where_told
from aotbuild.format.index import INDEX_NAME, MAGIC

_MOST_BEGINNING = 4096


class Destination:
    """Where an output goes; made before the work begins, so that what is refused costs nothing.

    Raises OSError for a file that `begins` does not match, as the input or anything else that is
    no earlier output; for a place inside the folder of a package, whose files are all accounted
    for; and for what cannot be written to. Without a `path` it is stdout.
    """

    def __init__(self, path: Path | None, begins: re.Pattern[bytes], what: str) -> None:
        self._path, self._begins, self._what = path, begins, what
        self._check()

    def write(self, data: bytes) -> None:
        """Write all of it, or leave a file as it is; raises OSError."""
        if self._path is None:
            write_bytes(data)
            return
        self._check()  # the command may have written another of its outputs there
        write_where_told(self._path, data)

    def _check(self) -> None:
        if self._path is None or kind_of(self._path) is not Kind.FILE:
            return
        place = Path(os.path.realpath(self._path))
        if package := package_above(place):
            reason = f"is inside of a package, {package}, and would damage it; name another"
            raise OSError(errno.EEXIST, reason, str(self._path))
        beginning = _beginning(place)
        if beginning and not self._begins.match(beginning):
            reason = f"is there already and is no {self._what}; name another"
            raise FileExistsError(errno.EEXIST, reason, str(self._path))


def _beginning(file: Path) -> bytes:
    try:
        with open_regular(file) as opened:
            return opened.read(_MOST_BEGINNING)
    except FileNotFoundError:
        return b""


def package_above(place: Path) -> Path | None:
    """Return the `_aot` folder that a place is inside of, if it is inside of one."""
    return next(filter(is_package, place.parents), None)


def is_package(folder: Path) -> bool:
    """Return whether a folder has an index of aotbuild."""
    try:
        return _beginning(folder / INDEX_NAME).startswith(MAGIC)
    except OSError:  # it is a folder, or somebody else's
        return False
