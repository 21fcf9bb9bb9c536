"""The distribution or project that a package is of, and what it requires.

Imported only where a record names a module that is neither the package's own nor jax's.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from aotbuild.format.dependencies import (
    Distributions,
    editable_root,
    of_distribution,
    of_project,
)
from aotbuild.format.dist_info import UNREADABLE
from aotbuild.format.index import FOLDER_NAME, INDEX_NAME
from aotbuild.runtime.distribution import find_owner
from aotbuild.runtime.locate import package_folders
from aotbuild.runtime.source import Source
from aotbuild.runtime.wheel_source import WheelSource


def dependencies_of(source: Source, package: str) -> Distributions | None:
    """Return what a package requires, as the METADATA of its wheel or installation says.

    Of a package that nobody installed, the pyproject.toml above it says so. None if there is none.
    """
    if isinstance(source, WheelSource):
        return _of_wheel(source)
    parts = package.split(".")
    for folder in dict.fromkeys(_folders(source, parts)):
        if (distribution := _holding(folder, parts)) is not None:
            return of_distribution(distribution)
        if (root := _project_above(folder)) is not None:
            return of_project(root)
    return None


def _of_wheel(source: WheelSource) -> Distributions:
    try:
        return of_distribution(source.distribution())
    except UNREADABLE:
        return Distributions(())


def _folders(source: Source, parts: list[str]) -> Iterator[Path]:
    """Yield where the package may be: around its `_aot` folder, and where Python finds it."""
    yield Path(source.place).absolute().parent
    yield from (folder.absolute() for folder in package_folders(parts))


def _holding(folder: Path, parts: list[str]) -> metadata.Distribution | None:
    """Return the distribution that lists a package's files, or is installed from its project."""
    if (*folder.parts[-len(parts) :],) == (*parts,):
        root, below = folder.parents[len(parts) - 1], "/".join(parts)
        for name in (f"{below}/{FOLDER_NAME}/{INDEX_NAME}", f"{below}/__init__.py"):
            if (found := find_owner(root, name)) is not None:
                return found
    place = folder.resolve()
    for each in metadata.distributions():
        root_of_project = editable_root(each)
        if root_of_project is not None and place.is_relative_to(root_of_project.resolve()):
            return each
    return None


def _project_above(folder: Path) -> Path | None:
    files = ("pyproject.toml", "aot.yaml")
    return next((each for each in folder.parents if any((each / f).is_file() for f in files)), None)
