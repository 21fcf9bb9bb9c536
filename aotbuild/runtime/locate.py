"""From what `load` is given to a source, and from a file to the distribution it came with."""

from __future__ import annotations

import importlib.util
import os
import sys
import zipfile
import zlib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from aotbuild.errors import NoArtifacts, PackageNotFound
from aotbuild.runtime.source import DirectorySource, Source
from aotbuild.spec.index import FOLDER_NAME, INDEX_NAME


def locate(package: str | os.PathLike[str]) -> Source:
    """Return the source of a package name, an `_aot` folder (or its parent) or a wheel.

    PackageNotFound if there is no such thing, NoArtifacts if it holds no executables.
    """
    name = package_name(package)
    return _at_path(Path(package)) if name is None else _of_package(name)


def package_name(package: str | os.PathLike[str]) -> str | None:
    """Return the name of a package where `locate` takes it for one; None for a path."""
    is_path = isinstance(package, os.PathLike) or _looks_like_path(package)
    return None if is_path else str(package)


def _looks_like_path(text: str) -> bool:
    separators = {os.sep, os.altsep or os.sep, "/"}
    return text.endswith(".whl") or text.startswith(".") or any(sep in text for sep in separators)


def _at_path(path: Path) -> Source:
    if path.suffix == ".whl":
        from aotbuild.runtime.wheel_source import WheelSource

        return WheelSource(path)
    if not path.is_dir():
        raise PackageNotFound(str(path), [str(path)])
    for folder in (path, path / FOLDER_NAME):
        if (folder / INDEX_NAME).is_file():
            return DirectorySource(folder)
    raise NoArtifacts(str(path), [str(path), str(path / FOLDER_NAME)])


def _of_package(package: str) -> Source:
    parts = package.split(".")
    if not all(part.isidentifier() for part in parts):
        raise PackageNotFound(package, [])
    locations = _package_folders(parts)
    below_path = [Path(entry or ".").joinpath(*parts) for entry in sys.path]
    searched = list(dict.fromkeys(folder / FOLDER_NAME for folder in (*locations, *below_path)))
    for folder in searched:
        if (folder / INDEX_NAME).is_file():
            return DirectorySource(folder)
    if not locations:
        raise PackageNotFound(package, [str(folder.parent) for folder in searched])
    exists = [str(folder) for folder in searched if folder.parent.is_dir()]
    raise NoArtifacts(package, exists)


def _package_folders(parts: list[str]) -> list[Path]:
    """Return the folders of a package; only its top-level name can be found without importing."""
    folders = [folder.joinpath(*parts[1:]) for folder in _top_level_folders(parts[0])]
    return [folder for folder in folders if folder.exists()]


def _top_level_folders(name: str) -> Iterator[Path]:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return
    for location in (spec.submodule_search_locations or ()) if spec else ():
        yield Path(location)


# What a damaged wheel or `.dist-info` raises; RuntimeError is zipfile's word for an encrypted one.
UNREADABLE = (
    OSError,
    ValueError,
    KeyError,
    EOFError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)


def find_owner(root: Path, name: str) -> metadata.Distribution | None:
    """Return the distribution below `root` whose RECORD lists the file `name`, or None.

    `root` is a folder of sys.path or a wheel, `name` the path of the file below it, with slashes.
    """
    found = metadata.distributions(path=[str(root)])
    return next((distribution for distribution in found if _lists(distribution, name)), None)


def _lists(distribution: metadata.Distribution, name: str) -> bool:
    # Not `distribution.files`: Python 3.12 and later leave out of it what is inside a wheel.
    try:
        record = distribution.read_text("RECORD") or ""
    except UNREADABLE:
        return False
    return any(line.startswith((f"{name},", f'"{name}",')) for line in record.splitlines())
