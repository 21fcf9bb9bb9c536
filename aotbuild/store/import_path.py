"""Where Python would import a module from, found by listing folders. Nothing is imported.

It follows `importlib.machinery.PathFinder`: in each folder of the path, a package comes before an
extension module, source and bytecode, and a folder without any of them is a part of a namespace
package. Files in a zip are not found.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder
from pathlib import Path

_OF_PIP = re.compile(r"/pip-build-env-[^/]+/site/sitecustomize\.py$")


@dataclass(frozen=True)
class ModulePlace:
    """Where a module is: its file, and the folders of its submodules if it is a package.

    A namespace package has no file.
    """

    file: str | None
    folders: tuple[str, ...] = ()


def nowhere(name: str) -> ModulePlace | None:
    """Find no module: what an `ImportPath` asks where it has nothing else to ask."""
    del name
    return None


def other_finders(name: str) -> ModulePlace | None:
    """Return where this process would import a top-level module from that is not along its path."""
    for finder in sys.meta_path:
        if finder in (BuiltinImporter, FrozenImporter, PathFinder):
            continue
        try:
            spec = finder.find_spec(name, None)
        except Exception:  # noqa: BLE001 (finders are anybody's code)
            spec = None
        if spec is not None and (spec.has_location or spec.submodule_search_locations):
            file = spec.origin if spec.has_location else None
            return ModulePlace(file, tuple(spec.submodule_search_locations or ()))
    return None


@dataclass
class ImportPath:
    """Finds modules along `entries`, the folders of a `sys.path`.

    `suffixes` are those of modules, in the order of importlib. `others` is asked for a top-level
    module that is in none of the folders, such as one of an editable install.
    """

    entries: Sequence[str]
    suffixes: Sequence[str]
    others: Callable[[str], ModulePlace | None] = nowhere
    _found: dict[str, ModulePlace | None] = field(default_factory=dict)
    _listed: dict[str, frozenset[str]] = field(default_factory=dict)

    def find(self, name: str) -> ModulePlace | None:
        """Return where a module is imported from; None if it cannot be found."""
        if name not in self._found:
            self._found[name] = self._look(name)
        return self._found[name]

    def first(self, relative: str) -> str | None:
        """Return the first file or folder of that relative path in the folders of the path."""
        return next((place for _, place in self.every(relative)), None)

    def every(self, relative: str) -> Iterator[tuple[str, str]]:
        """Yield each folder of the path that has a file or folder of that relative path, and it."""
        top, _, rest = relative.partition("/")
        for entry in dict.fromkeys(self.entries):
            place = os.path.join(entry, top, rest) if rest else os.path.join(entry, top)
            if top in self.names(entry) and (not rest or os.path.lexists(place)):
                yield entry, place

    def names(self, folder: str) -> frozenset[str]:
        """Return the names in a folder; none if it cannot be read."""
        if folder not in self._listed:
            try:
                # A path for each name would take most of the time.
                self._listed[folder] = frozenset(os.listdir(folder))  # noqa: PTH208
            except OSError:
                self._listed[folder] = frozenset()
        return self._listed[folder]

    def starting(self) -> list[str]:
        """Return the `.pth` files with code that Python runs when it starts."""
        return [
            file
            for entry in self.entries
            for name in sorted(self.names(entry))
            if name.endswith(".pth") and _has_code(file := os.path.join(entry, name))
        ]

    def _look(self, name: str) -> ModulePlace | None:
        parent, _, tail = name.rpartition(".")
        if not parent:
            return self._in_folders(tail, self.entries) or self.others(name)
        package = self.find(parent)
        return package and self._in_folders(tail, package.folders)

    def _in_folders(self, tail: str, folders: Sequence[str]) -> ModulePlace | None:
        portions = []
        for folder in folders:
            names = self.names(folder)
            inside = os.path.join(folder, tail)
            if tail in names:
                file = self._file("__init__", inside)
                if file:
                    return ModulePlace(file, (inside,))
                if self.names(inside) or Path(inside).is_dir():
                    portions.append(inside)
            file = self._file(tail, folder)
            if file:
                return ModulePlace(file)
        return ModulePlace(None, tuple(portions)) if portions else None

    def _file(self, stem: str, folder: str) -> str | None:
        names = self.names(folder)
        name = next((stem + end for end in self.suffixes if stem + end in names), None)
        return os.path.join(folder, name) if name else None


def is_of_pip(file: str | None) -> bool:
    """Return whether a `sitecustomize` is the one that pip writes for each isolated build.

    It has the paths of the temporary folders of that build, which it puts on `sys.path`.
    """
    return file is not None and _OF_PIP.search(file) is not None


def _has_code(file: str) -> bool:
    try:
        return any(line.startswith((b"import ", b"import\t")) for line in _lines(file))
    except OSError:
        return False


def _lines(file: str) -> list[bytes]:
    return Path(file).read_bytes().splitlines()
