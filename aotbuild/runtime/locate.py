"""Finding the `_aot` folder of a package, without importing the package."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from aotbuild.errors import AotbuildError, NoArtifacts, PackageNotFound
from aotbuild.format.index import FOLDER_NAME, INDEX_NAME
from aotbuild.runtime.source import DirectorySource

if TYPE_CHECKING:
    from aotbuild.runtime.wheel_source import WheelSource


def locate(
    package: str | os.PathLike[str], *, stays: bool = False
) -> DirectorySource | WheelSource:
    """Return the source of a package name, an `_aot` folder (or its parent) or a wheel.

    With `stays`, the source is read after `os.chdir`, too: its place is absolute.

    Raises PackageNotFound, or NoArtifacts if there is no `_aot` folder in it.
    """
    name = package_name(package)
    source = _at_path(Path(package)) if name is None else _of_package(name)
    if stays:
        source.stay()
    return source


# Characters of a name of a file; `pathlib` raises OSError for more.
_LONGEST = 255


def package_name(package: str | os.PathLike[str]) -> str | None:
    """Return `package` if it is the name of a package, None if it is a path."""
    if not isinstance(package, (str, os.PathLike)):
        msg = (
            f"load(package)\n  expected the name of a package, or a path\n  found    {package!r}\n"
            "Pass a text, or a pathlib.Path."
        )
        raise AotbuildError(msg)
    is_path = isinstance(package, os.PathLike) or _looks_like_path(package)
    return None if is_path else str(package)


def _looks_like_path(text: str) -> bool:
    separators = {os.sep, os.altsep or os.sep, "/"}
    return text.endswith(".whl") or text.startswith(".") or any(sep in text for sep in separators)


def _at_path(path: Path) -> DirectorySource | WheelSource:
    if path.suffix == ".whl":
        from aotbuild.runtime.wheel_source import WheelSource

        return WheelSource(path)
    if not os.path.isdir(path):  # noqa: PTH112 - `is_dir` raises OSError for names that are too long
        raise PackageNotFound(str(path), [str(path)])
    for folder in (path, path / FOLDER_NAME):
        if (folder / INDEX_NAME).is_file():
            return DirectorySource(folder)
    raise NoArtifacts(str(path), [str(path), str(path / FOLDER_NAME)])


def _of_package(package: str) -> DirectorySource:
    parts = package.split(".")
    if not all(part.isidentifier() and len(part) <= _LONGEST for part in parts):
        raise PackageNotFound(package, [])
    locations = package_folders(parts)
    below_path = [Path(entry or ".").joinpath(*parts) for entry in sys.path]
    searched = list(dict.fromkeys(folder / FOLDER_NAME for folder in (*locations, *below_path)))
    for folder in searched:
        if (folder / INDEX_NAME).is_file():
            return DirectorySource(folder)
    if not locations:
        archive = next(filter(os.path.isfile, sys.path), "")
        hint = f" Nothing is loaded from within {archive}: give the path of a wheel instead."
        places = [str(folder.parent) for folder in searched]
        raise PackageNotFound(package, places, hint if archive else "")
    exists = [str(folder) for folder in searched if folder.parent.is_dir()]
    raise NoArtifacts(package, exists)


def package_folders(parts: list[str]) -> list[Path]:
    """Return the folders of a package; `find_spec` finds only the top level without importing."""
    folders = [folder.joinpath(*parts[1:]) for folder in _top_level_folders(parts[0])]
    return [folder for folder in folders if folder.exists()]


def _top_level_folders(name: str) -> Iterator[Path]:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return
    for location in (spec.submodule_search_locations or ()) if spec else ():
        yield Path(location)
