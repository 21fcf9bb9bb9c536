"""Refuse a wheel with other sources than its executables were compiled from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from aotbuild.build.edited_files import edited_since
from aotbuild.errors import AotbuildError, SourcesEdited
from aotbuild.format.files import read_regular
from aotbuild.format.index import INDEX_NAME, MOST_INDEX, Index
from aotbuild.format.sources import SourceDigests, read_sources

_REMEDY = "build again; if another build hook writes it, list that hook before aotbuild's"


def refuse_edited(wheel: Path, artifacts: Path, root: Path, since: int, config: Any) -> None:
    """Raise SourcesEdited if a file is not what `artifacts` were made from.

    Only those are read that changed after `since`, in nanoseconds. `config`, hatchling's, says what
    it packs. What was packed as it was compiled may change afterwards: hooks remove what they made.
    """
    known = _compiled(artifacts)
    edited = sorted(edited_since(known, root, since)) if known else []
    if known and edited:
        with ZipFile(wheel) as archive:
            members = {*archive.namelist()}
            packed = {name: config.get_distribution_path(name) for name in edited}
            digests = {n: _digest(archive, m) for n, m in packed.items() if m in members}
        edited = [name for name in edited if digests.get(name) != known.files[name]]
        edited = [name for name in edited if name in digests or _counts(name, root, config)]
    if edited:
        raise SourcesEdited(edited, remedy=_REMEDY)


def refuse_replaced(wheel: Path, artifacts: Path, config: Any) -> None:
    """Raise SourcesEdited if a wheel has another file where a module is that was compiled.

    `force-include` may put one there, and so may hooks.
    """
    known = _compiled(artifacts)
    if known is None:
        return
    replaced = []
    with ZipFile(wheel) as archive:
        members = {*archive.namelist()}
        for name in known.modules:
            places = {config.get_distribution_path(name), known.import_path(name)} & members
            if any(_digest(archive, place) != known.files[name] for place in places):
                replaced.append(name)
    if replaced:
        raise SourcesEdited(sorted(replaced), in_wheel=True)


def _compiled(artifacts: Path) -> SourceDigests | None:
    place = artifacts / INDEX_NAME
    return read_sources(Index.open(read_regular(place, MOST_INDEX), str(place)).header)


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
