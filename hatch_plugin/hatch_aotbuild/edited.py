"""Refuse a wheel with sources that were edited after its executables were compiled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from aotbuild.build.edited_files import edited_since
from aotbuild.errors import AotbuildError, SourcesEdited
from aotbuild.spec.files import read_regular
from aotbuild.spec.index import INDEX_NAME, MOST_INDEX, Index
from aotbuild.spec.sources import read_sources


def refuse_edited(wheel: Path, artifacts: Path, root: Path, since: int, config: Any) -> None:
    """Raise SourcesEdited if a file is not what `artifacts` were made from.

    Only those are read that changed after `since`, in nanoseconds. `config`, hatchling's, says what
    it packs. What was packed as it was compiled may change afterwards: hooks remove what they made.
    """
    place = artifacts / INDEX_NAME
    known = read_sources(Index.open(read_regular(place, MOST_INDEX), str(place)).header)
    edited = sorted(edited_since(known, root, since)) if known else []
    if known and edited:
        with ZipFile(wheel) as archive:
            members = {*archive.namelist()}
            packed = {name: config.get_distribution_path(name) for name in edited}
            digests = {n: _digest(archive, m) for n, m in packed.items() if m in members}
        edited = [name for name in edited if digests.get(name) != known.files[name]]
        edited = [name for name in edited if name in digests or _counts(name, root, config)]
    if edited:
        raise SourcesEdited(edited)


def _digest(archive: ZipFile, member: str) -> str:
    return sha256(archive.read(member)).hexdigest()


def _counts(name: str, root: Path, config: Any) -> bool:
    """Return whether a file that is not in the wheel is there, or would be packed."""
    return (root / name).exists() or bool(config.include_path(name))


@contextmanager
def removed_on_error(wheel: Path) -> Iterator[None]:
    """Leave no wheel if the block raises an error of aotbuild."""
    try:
        yield
    except AotbuildError:
        wheel.unlink(missing_ok=True)
        raise
