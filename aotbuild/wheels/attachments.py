"""The bill of materials and the kept stages of a wheel that is made from others."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from aotbuild.build.pack import write_stages
from aotbuild.report.provenance import Distribution
from aotbuild.report.sbom import SBOM_NAME, missing_library, sbom_json
from aotbuild.runtime.stages import StagesFile, beside, read_stage
from aotbuild.spec.index import INDEX_NAME
from aotbuild.spec.layout import BESIDE, HEADER_KEY, stages_path
from aotbuild.spec.record import Record
from aotbuild.wheels.opened import OpenedWheel
from aotbuild.wheels.writing import check_free

if TYPE_CHECKING:
    from aotbuild.runtime.buffers import Mapper

LEFT_OUT = "the bills of materials are left out of the new wheels: {}"


class _IndexAlone:
    """A source with an index and no blobs, which is all that a bill of materials needs."""

    def __init__(self, place: str, index: bytes) -> None:
        self.place, self._index = place, index

    def read(self, name: str, limit: int = -1) -> bytes:
        """Return the bytes of the index; FileNotFoundError for any other file."""
        if name != INDEX_NAME:
            raise FileNotFoundError(name)
        return self._index if limit < 0 else self._index[:limit]

    def view(self, name: str, size: int, mapper: Mapper) -> memoryview:
        """Return the bytes of the index; FileNotFoundError for any other file."""
        return memoryview(self.read(name, size + 1))

    def close(self) -> None:
        """Do nothing: no file is open."""


def note_if_left_out(wheels: Sequence[OpenedWheel]) -> tuple[bool, list[str]]:
    """Return whether new wheels get a bill of materials, and a note if one is left out."""
    if not any(wheel.has_sbom for wheel in wheels):
        return False, []
    missing = missing_library()
    return missing is None, [LEFT_OUT.format(missing)] if missing else []


def make_sbom(
    index: bytes, wheels: Sequence[OpenedWheel], distribution: tuple[str, str]
) -> tuple[str, bytes]:
    """Return the name and the bytes of a bill of materials, with the latest time of `wheels`."""
    times = [time for wheel in wheels if (time := _time_of(wheel)) is not None]
    source = _IndexAlone(distribution[0], index)
    timestamp = max(times, default=None)
    return SBOM_NAME, sbom_json(source, Distribution(*distribution), timestamp)


def _time_of(wheel: OpenedWheel) -> datetime | None:
    if not wheel.has_sbom:
        return None
    try:
        document = json.loads(wheel.archive.read(wheel.sbom_name))
        text = document["metadata"]["timestamp"]
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except (ValueError, KeyError, TypeError):
        return None


def absent_stages(wheels: Sequence[OpenedWheel]) -> list[str]:
    """Return a note for each wheel whose file of kept stages is missing."""
    return [
        f"{beside(wheel.path)} is not there: the new wheels come without those kept stages"
        for wheel in wheels
        if _keeps_beside(wheel) and not beside(wheel.path).exists()
    ]


def split_stages(
    wheels: Sequence[OpenedWheel], records: Sequence[Record], wheel: Path
) -> Iterator[Path]:
    """Write the kept stages of records beside a new wheel and yield the file, if any.

    Raises DamagedBlob if a stage is not what the build made.
    """
    places = [beside(w.path) for w in wheels if _keeps_beside(w)]
    with ExitStack() as stack:
        files = [StagesFile(place) for place in places if place.exists()]
        for file in files:
            stack.callback(file.close)
        held = {name: file for file in reversed(files) for name in file.names()}
        kept = [r for r in records if r.stages and all(b.path in held for _, b in r.stages)]
        if kept:
            check_free(stages_path(wheel))
            yield _write(held, kept, stages_path(wheel))


def _write(held: dict[str, StagesFile], records: Sequence[Record], path: Path) -> Path:
    with tempfile.TemporaryDirectory(prefix=".aotbuild-", dir=path.parent) as folder:
        for blob in {blob for record in records for _, blob in record.stages}:
            target = Path(folder, blob.path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(read_stage(held[blob.path], blob))
        write_stages(path, Path(folder), records)
    return path


def _keeps_beside(wheel: OpenedWheel) -> bool:
    return wheel.index.header.get(HEADER_KEY) == BESIDE
