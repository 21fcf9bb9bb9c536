"""Files of kept stages, for wheels that are made from others: each gets those of its records."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from aotbuild.build.stages_file import write_stages
from aotbuild.runtime.stages import StagesFile, beside, read_stage
from aotbuild.spec.record import Record
from aotbuild.spec.stages import BESIDE, HEADER_KEY, stages_path
from aotbuild.wheels.opened import OpenedWheel
from aotbuild.wheels.writing import check_free


def absent_stages(wheels: Sequence[OpenedWheel]) -> list[str]:
    """Return a note for each wheel whose kept stages are in a file that is not beside it."""
    return [
        f"{beside(wheel.path)} is not there: the new wheels come without those kept stages"
        for wheel in wheels
        if _keeps_beside(wheel) and not beside(wheel.path).exists()
    ]


def split_stages(
    wheels: Sequence[OpenedWheel], records: Sequence[Record], wheel: Path
) -> Iterator[Path]:
    """Write the kept stages of records beside a new wheel, and yield the file, if there are any.

    DamagedBlob if one is not what the build made.
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
