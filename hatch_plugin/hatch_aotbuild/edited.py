"""Refuse a wheel with sources that were edited after its executables were compiled."""

from __future__ import annotations

from pathlib import Path

from aotbuild.build.edited_files import edited_since
from aotbuild.errors import SourcesEdited
from aotbuild.spec.files import read_regular
from aotbuild.spec.index import INDEX_NAME, MOST_INDEX, Index
from aotbuild.spec.sources import read_sources


def refuse_edited(wheel: Path, artifacts: Path, root: Path, since: int) -> None:
    """Remove the wheel and raise SourcesEdited if a file is not what `artifacts` were made from.

    Hatchling has packed the files as they are now. Only those are read that changed after `since`,
    in nanoseconds.
    """
    place = artifacts / INDEX_NAME
    known = read_sources(Index.open(read_regular(place, MOST_INDEX), str(place)).header)
    edited = sorted(edited_since(known, root, since)) if known else []
    if edited:
        wheel.unlink(missing_ok=True)
        raise SourcesEdited(edited)
