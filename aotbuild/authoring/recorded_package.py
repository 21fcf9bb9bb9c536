"""Which import package a new manifest is for."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from aotbuild.watch.recording import Recording

_FOLDERS = ("", "src")


def guess_package(recording: Recording, folder: Path) -> str:
    """Return the package of a project's folder, else the one whose functions cost most.

    That is the one that pyproject.toml is named after, if it is there or was recorded; else one of
    the recorded ones that is there.
    """
    seconds: dict[str, float] = {}
    for function in recording.functions.values():
        if not function.problem:
            top = function.call.partition(":")[0].partition(".")[0]
            tally = recording.tally(recording.of(function.key))
            seconds[top] = seconds.get(top, 0.0) + tally.seconds
    tops = sorted(seconds, key=lambda top: -seconds[top])
    named = re.sub(r"[-.]+", "_", _project_name(folder)).lower()
    if named and (named in tops or _is_there(folder, named)):
        return named
    here = (top for top in tops if _is_there(folder, top))
    return next(here, next(iter(tops), named or "package"))


def _is_there(folder: Path, name: str) -> bool:
    return any((folder / each / name / "__init__.py").is_file() for each in _FOLDERS)


def _project_name(folder: Path) -> str:
    try:
        with (folder / "pyproject.toml").open("rb") as file:
            project: Any = tomllib.load(file).get("project", {})
    except (OSError, ValueError):
        return ""
    name = project.get("name") if isinstance(project, dict) else None
    return name if isinstance(name, str) else ""
