"""The names in folders that a computation may have read."""

from __future__ import annotations

import os
from collections.abc import Iterable

from aotbuild.spec.index import FOLDER_NAME

# What builds and Python itself write beside sources.
_OWN_NAMES = ("__pycache__", FOLDER_NAME, f"{FOLDER_NAME}.stages.zip")
_OWN_PREFIX = ".aotbuild-"


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
