"""Kept stages: read from the package or from the file beside it. No call needs them.

The records hold their digests, so it does not matter where the file comes from.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from aotbuild.errors import DamagedBlob
from aotbuild.format.archives import RegularZip
from aotbuild.format.layout import stages_path
from aotbuild.format.record import Blob
from aotbuild.runtime.source import Source, read_blob
from aotbuild.runtime.wheel_source import read_member, view_member

if TYPE_CHECKING:
    from aotbuild.runtime.buffers import Mapper

REMEDY = "Take the file that was built together with this package; one of another build differs."


class StagesFile:
    """The zip file of kept stages, as a source of blobs; OSError or DamagedBlob if it is none."""

    def __init__(self, path: Path) -> None:
        self.place = str(path)
        try:
            self._file = RegularZip(path)
        except zipfile.BadZipFile as err:
            raise DamagedBlob(self.place, "a zip file of kept stages", str(err), REMEDY) from err

    def read(self, name: str, limit: int = -1) -> bytes:
        """Return the bytes of a member, at most `limit` of them; OSError if it cannot be read."""
        return read_member(self._file, name, limit)

    def view(self, name: str, size: int, mapper: Mapper) -> memoryview:
        """Return a member of `size` bytes in memory, aligned to 64."""
        return view_member(self._file, name, size, mapper)

    def names(self) -> list[str]:
        """Return the names of all members."""
        return self._file.namelist()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def beside(place: Path) -> Path:
    """Return where the stages file of a wheel or an `_aot` folder belongs; it may not exist."""
    return stages_path(place if place.name else place.absolute())


def read_stage(source: Source, blob: Blob) -> bytes:
    """Return the bytes of a kept stage; DamagedBlob unless they match the record."""
    try:
        return read_blob(source, blob)
    except DamagedBlob as err:
        if not isinstance(source, StagesFile):
            raise
        raise DamagedBlob(err.place, err.expected, err.found, REMEDY) from err
