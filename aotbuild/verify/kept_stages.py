"""The file of kept stages beside a wheel or `_aot` folder is intact and complete."""

from __future__ import annotations

import os
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

from aotbuild.errors import DamagedBlob
from aotbuild.format.archives import RegularZip
from aotbuild.format.layout import BESIDE, HEADER_KEY, WHEEL
from aotbuild.format.record import Blob
from aotbuild.runtime.stages import REMEDY, StagesFile, beside, read_stage
from aotbuild.verify.contents import Contents
from aotbuild.verify.outcome import Outcome, concluded, not_checked
from aotbuild.verify.zip_layout import Limits, data_problems, layout_problems, member_problems

CHECK = "stages"
_SHOWN = 20


def check_stages(path: str, contents: Contents, limits: Limits) -> list[Outcome]:
    """Return the outcome of the file of kept stages beside a wheel or folder, if it has one."""
    header = contents.index.header if contents.index else {}
    blobs = {blob.path: blob for record in contents.records for _, blob in record.stages}
    where = header.get(HEADER_KEY)
    if where == WHEEL or (where is None and not blobs):
        return []
    file = beside(Path(path))
    if where != BESIDE:
        problem = f"records name kept stages, and the header says {where!r}: expected {BESIDE!r}"
        return [concluded(CHECK, file.name, [problem])]
    if not os.path.lexists(file):
        return [not_checked(CHECK, file.name, f"the file is not there: {file}")]
    problems = list(islice(_problems(file, blobs, limits), _SHOWN))
    return [concluded(CHECK, file.name, [*problems, *([REMEDY] if problems else [])])]


def _problems(file: Path, blobs: dict[str, Blob], limits: Limits) -> Iterator[str]:
    problems = list(islice(_archive_problems(file, limits), _SHOWN))
    yield from problems
    if not problems:
        yield from _text_problems(file, blobs)


def _archive_problems(file: Path, limits: Limits) -> Iterator[str]:
    """Yield why the members cannot be read safely; the limits are those of a wheel."""
    try:
        with RegularZip(file) as archive:
            assert archive.fp is not None
            problems = [
                *islice(layout_problems(archive.fp, archive), _SHOWN),
                *islice(member_problems(archive, limits), _SHOWN),
            ]
            yield from problems or data_problems(archive.fp, archive)
            counts = Counter(archive.namelist())
            yield from (f"{name!r} is there twice" for name, n in counts.items() if n > 1)
    except (zipfile.BadZipFile, NotImplementedError, ValueError, UnicodeError) as err:
        yield f"not a zip file that can be read: {err}"
    except OSError as err:
        yield f"cannot be read: {err.strerror}"


def _text_problems(file: Path, blobs: dict[str, Blob]) -> Iterator[str]:
    with closing(StagesFile(file)) as source:
        for _, blob in sorted(blobs.items()):
            try:
                read_stage(source, blob)
            except DamagedBlob as err:
                yield f"{blob.path}: expected {err.expected}, found {err.found}"
        for name in source.names():
            if name not in blobs:
                yield f"{name!r} belongs to no record"
