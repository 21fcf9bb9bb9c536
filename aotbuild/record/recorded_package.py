"""Which import package a new manifest is for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from aotbuild.format.files import read_regular_text
from aotbuild.format.toml_text import read_toml
from aotbuild.record.recording import RecordedFunction, Recording

_FOLDERS = ("", "src")
_SITES = frozenset({"site-packages", "dist-packages"})


def guess_package(recording: Recording, folder: Path) -> str:
    """Return the package of a project's folder, else the one whose functions cost most.

    That is the one that pyproject.toml is named after, if it is there or was recorded; else one of
    the recorded ones that is there. An installed one is taken if nothing else was recorded.
    """
    seconds: dict[str, float] = {}
    functions = [*recording.functions.values()]
    own = [each for each in functions if not is_installed(each) and not each.is_operation]
    for function in own or functions:
        if not function.problem:
            top = top_of(function)
            tally = recording.tally(recording.of(function.key))
            seconds[top] = seconds.get(top, 0.0) + tally.seconds
    tops = sorted(seconds, key=lambda top: -seconds[top])
    named = re.sub(r"[-.]+", "_", _project_name(folder)).lower()
    if named and (named in tops or _is_there(folder, named)):
        return named
    here = (top for top in tops if _is_there(folder, top))
    return next(here, next(iter(tops), named or "package"))


def is_library(function: RecordedFunction, package: str) -> bool:
    """Return whether a function is of an installed package, and not of the manifest's."""
    return is_installed(function) and top_of(function) != package


def is_installed(function: RecordedFunction) -> bool:
    """Return whether the source of a function is where pip installs packages."""
    return not _SITES.isdisjoint(Path(function.file).parts)


def top_of(function: RecordedFunction) -> str:
    """Return the import package of a function."""
    return function.call.partition(":")[0].partition(".")[0]


def _is_there(folder: Path, name: str) -> bool:
    return any((folder / each / name / "__init__.py").is_file() for each in _FOLDERS)


def _project_name(folder: Path) -> str:
    try:
        text = read_regular_text(folder / "pyproject.toml")
        project: Any = read_toml(text).get("project", {})
    except (OSError, ValueError):
        return ""
    name = project.get("name") if isinstance(project, dict) else None
    return name if isinstance(name, str) else ""
