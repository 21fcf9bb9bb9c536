"""The settings that uv reads where it resolves: they name the indexes that versions come from.

What uv chose under the settings of one project must not be taken for another, whose settings may be
those of a stranger. Which files uv reads: https://docs.astral.sh/uv/concepts/configuration-files/.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from aotbuild.format.canonical import sha256_hex
from aotbuild.format.files import read_regular

_FILE = "uv.toml"


def settings_key(folder: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return what decides the settings of uv in a folder: variables, and digests of files by path.

    With settings of a project the folder is among it, because paths in them may be relative.
    """
    place = Path(os.path.realpath(folder))
    of_project, of_user = dict(_of_project(place)), dict(_of_user(place, environment))
    return {
        "variables": {name: text for name, text in environment.items() if name.startswith("UV_")},
        "files": {**of_project, **of_user},
        "folder": str(place) if of_project else "",
    }


def _of_project(place: Path) -> Iterator[tuple[str, str]]:
    for parent in (place, *place.parents):
        for path, digest_of in ((parent / _FILE, _digest), (parent / "pyproject.toml", _table)):
            if digest := digest_of(path):
                yield str(path), digest


def _of_user(place: Path, environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    user = environment.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111
    system = environment.get("XDG_CONFIG_DIRS") or "/etc/xdg"
    paths = [Path(base, "uv", _FILE) for base in (user, *system.split(os.pathsep), "/etc")]
    if chosen := environment.get("UV_CONFIG_FILE"):
        paths.append(place / chosen)
    for path in paths:
        if digest := _digest(path):
            yield str(path), digest


def _digest(path: Path) -> str:
    """Return the digest of a file, and "" if there is none."""
    try:
        return sha256_hex(read_regular(path))
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as err:  # uv says what it makes of it
        return f"unreadable: {err.strerror}"


def _table(path: Path) -> str:
    """Return what a project's table of uv is, and "" if it has none."""
    try:
        found = tomllib.loads(read_regular(path).decode()).get("tool", {}).get("uv")
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except (OSError, ValueError, AttributeError, RecursionError):
        return _digest(path)
    return "" if found is None else sha256_hex(repr(found).encode("utf-8", "backslashreplace"))
