"""What a computation may ask of a path: what is there, and the names in a folder."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from aotbuild.format.index import FOLDER_NAME
from aotbuild.store.file_digests import FOLDER, MISSING

# What builds and Python itself write beside sources.
_OWN_NAMES = ("__pycache__", FOLDER_NAME, f"{FOLDER_NAME}.stages.zip")
_OWN_PREFIX = ".aotbuild-"


def kind_at(path: str) -> str:
    """Return whether there is a file, a folder or nothing."""
    place = Path(path)
    if not place.exists():
        return MISSING
    return FOLDER if place.is_dir() else "file"


def size_at(path: str) -> int | str:
    """Return the size of a file, or what else there is."""
    place = Path(path)
    return place.stat().st_size if place.is_file() else kind_at(path)


def readable_at(path: str) -> str:
    """Return whether this user may read a file, or the names in a folder."""
    return _allowed_at(path, os.R_OK)


def writable_at(path: str) -> str:
    """Return whether this user may write to a file, or into a folder."""
    return _allowed_at(path, os.W_OK)


def executable_at(path: str) -> str:
    """Return whether this user may run a file, or go into a folder."""
    return _allowed_at(path, os.X_OK)


def _allowed_at(path: str, mode: int) -> str:
    if os.access(path, mode):
        return "yes"
    return MISSING if kind_at(path) == MISSING else "no"


def link_at(path: str) -> str:
    """Return where a link leads to; nothing for what is no link."""
    try:
        return os.path.join(os.path.dirname(path), Path(path).readlink())
    except OSError:
        return ""


def names_in(folder: str) -> list[str]:
    """Return the names in a folder, sorted, without what builds write there.

    Those of folders end with a slash, and those of links with two more.
    """
    try:
        with os.scandir(folder) as entries:
            found = [(e.name, "/" * (e.is_dir() + 2 * e.is_symlink())) for e in entries]
    except OSError:
        return []
    return sorted(
        f"{name}{slashes}"
        for name, slashes in found
        if name not in _OWN_NAMES and not name.startswith(_OWN_PREFIX)
    )


def modules_in(folder: str, modules: Iterable[str]) -> list[str]:
    """Return the names in a folder, and in its folders, that one of these modules may have."""
    parts = {part for module in modules for part in module.split(".")}
    found = [name for name in names_in(folder) if name.rstrip("/").partition(".")[0] in parts]
    inside = {"__init__", *parts}
    for name in [name for name in found if name.endswith("/")]:
        names = names_in(os.path.join(folder, name.rstrip("/")))
        found += [f"{name}{each}" for each in names if each.partition(".")[0] in inside]
    return found
