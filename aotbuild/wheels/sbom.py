"""The bill of materials of a wheel that is made from others: of its own index, anew."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from aotbuild.report.distribution import Distribution
from aotbuild.report.sbom import SBOM_NAME, missing_library, sbom_json
from aotbuild.spec.index import INDEX_NAME

if TYPE_CHECKING:
    from aotbuild.runtime.buffers import Mapper
    from aotbuild.wheels.opened import OpenedWheel

LEFT_OUT = "the bills of materials are left out of the new wheels: {}"


class _IndexAlone:
    """A source that has an index and no blob: a bill of materials needs no more."""

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
    """Return whether new wheels get a bill of materials, and why not, if some had one."""
    if not any(wheel.has_sbom for wheel in wheels):
        return False, []
    missing = missing_library()
    return missing is None, [LEFT_OUT.format(missing)] if missing else []


def make_sbom(
    index: bytes, wheels: Sequence[OpenedWheel], distribution: tuple[str, str]
) -> tuple[str, bytes]:
    """Return the name and the bytes of a bill; its time is the latest of those of `wheels`."""
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
