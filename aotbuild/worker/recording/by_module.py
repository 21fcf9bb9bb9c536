"""What each module reads: its files, variables and imports, as hooks tell of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from aotbuild.store.folder_names import names_in
from aotbuild.store.import_path import ImportPath
from aotbuild.worker.recording.owners import (
    EVERYBODY,
    Kind,
    importer_of,
    is_worker,
    kind_of,
    looks_installed,
    owners,
)
from aotbuild.worker.recording.search_path import SearchPath

# Variables that say where something is, and the code of Python that asks for them.
_WHEREABOUTS = {
    "posixpath": ("HOME",),
    "tempfile": ("TMPDIR", "TEMP", "TMP"),
    "shutil": ("PATH",),
    "subprocess": ("PATH",),
    "os": ("PATH",),
}
# Modules of libraries that go through all variables to find those that begin like this.
_SCANNERS = {
    "dask.config": "DASK_",
    "fsspec.config": "FSSPEC_",
    "numba.core.config": "NUMBA_",
    "tqdm.utils": "TQDM_",
}
_TRANSPARENT = ("os", "collections.abc")
_FOLLOWING = ("realpath", "_joinrealpath")
_METADATA = "importlib.metadata"
# The file of a distribution that is compared whenever distributions were listed.
_ENTRY_POINTS = (".dist-info/entry_points.txt", ".egg-info/entry_points.txt")
# It asks which frames to leave out of what it prints.
_TRACEBACKS = "jax._src.traceback_util"
_SAME = "samefile"
# Functions of the standard library that ask whether something exists, or is a link.
_EXISTENCE = frozenset(
    {
        *("exists", "lexists", "_exists", "_lexists", "isfile", "isdir", "ismount", _SAME),
        *("is_file", "is_dir", "is_mount", "is_block_device", "is_char_device", "is_fifo"),
    }
)
_LINK = frozenset({"islink", "is_symlink"})
# Those that pass on everything that the system knows.
_STAT = frozenset({"stat", "lstat", "getsize"})
_NOT_READ = os.O_WRONLY | os.O_TRUNC


@dataclass
class Read:
    """What belongs to one module."""

    files: set[str] = field(default_factory=set)
    sources: set[str] = field(default_factory=set)
    listings: set[str] = field(default_factory=set)
    looked: set[str] = field(default_factory=set)
    sizes: set[str] = field(default_factory=set)
    links: set[str] = field(default_factory=set)
    modules: set[str] = field(default_factory=set)
    variables: set[str] = field(default_factory=set)
    distributions: bool = False
    working_folder: bool = False
    obstacles: set[str] = field(default_factory=set)


class ReadsByModule:
    """A `Reader` that knows what belongs to which module.

    `edges` is what modules of the user's ask for, `library_edges` what those of libraries do.
    `search` sees what code adds to the places of modules. `roots` are modules whose code was at
    work, `library_files` the sources of libraries. `path` is where imports lead to. `hold` gets
    each installed file before it is read. `folders` has the names in each folder when they were
    first read.
    """

    def __init__(self, path: ImportPath, hold: Callable[[str], None]) -> None:
        self._path, self._hold = path, hold
        self._written: set[str] = set()
        self._by_module: dict[str, Read] = {}
        self.edges: dict[str, set[str]] = {}
        self.library_edges: dict[str, set[str]] = {}
        self.roots: set[str] = set()
        self.library_files: set[str] = set()
        self.folders: dict[str, list[str]] = {}
        self._quiet: set[object] = set()
        self.search = SearchPath(self.is_own)

    def by(self, module: str) -> Read:
        """Return what belongs to a module."""
        return self._by_module.get(module) or Read()

    def opened(self, path: str, frame: FrameType, flags: int = os.O_RDONLY) -> None:
        """A file was opened, or could not be."""
        is_new = flags & os.O_CREAT and flags & os.O_EXCL
        if flags & _NOT_READ or is_new:
            self._written.add(path)
            return
        if _lists_distributions(frame):
            self.listed(path, frame)
            if path.endswith(_ENTRY_POINTS):
                return
        if path not in self._written:
            if looks_installed(path):
                self._hold(path)
            for read in self._of(frame):
                read.files.add(path)

    def loaded(self, path: str, frame: FrameType) -> None:
        """The source of a module was read, or its bytecode in place of it."""
        if looks_installed(path):
            self.library_files.add(path)
            self._hold(path)
            return
        for read in self._of(frame):
            read.sources.add(path)

    def listed(self, path: str, frame: FrameType) -> None:
        """The names in a folder were read."""
        is_metadata = _lists_distributions(frame)
        if not is_metadata and path not in self.folders:
            self.folders[path] = names_in(path)
        for read in self._of(frame):
            if is_metadata:
                read.distributions = True
            else:
                read.listings.add(path)

    def looked(self, path: str, frame: FrameType, *, follows: bool = True) -> None:
        """It was asked whether a file exists, or what the system knows of it.

        With `follows` false, of a link itself.
        """
        if _lists_distributions(frame):
            self.listed(path, frame)
            return
        # Following links asks for every folder on the way.
        if path in self._written or frame.f_code.co_name in _FOLLOWING:
            return
        asker, kind, functions = _asked_for(frame)
        for read in self._of(frame) if asker != _TRACEBACKS else ():
            getattr(read, kind).add(path)
            if not follows:
                read.links.add(path)
            if _SAME in functions:
                # Each folder on the way may be a link.
                read.links.update((path, *map(str, Path(path).parents)))

    def followed(self, path: str, frame: FrameType) -> None:
        """It was asked where a link leads to."""
        for read in self._of(frame):
            read.links.add(path)

    def variable(self, name: str | None, frame: FrameType) -> None:
        """A variable of the environment was read; None: all of them."""
        asker = _asker(frame)
        if name in _WHEREABOUTS.get(asker, ()):
            return
        if asker in _SCANNERS:
            name = f"{_SCANNERS[asker]}*"
        for read in self._of(frame):
            if name is None:
                read.obstacles.add("reads the whole environment")
            else:
                read.variables.add(name)
        if name is not None and not owners(frame) and not is_worker(frame):
            self._by_module.setdefault(EVERYBODY, Read()).variables.add(name)

    def imported(self, name: str, frame: FrameType, importer: object) -> bool:
        """A module was asked for by code of the module `importer`, if that is known.

        It returns whether it need not be told again when the same module asks for the same.
        """
        if name.partition(".")[0] == "aotbuild" or self._are_quiet(importer, name):
            return True
        is_known = isinstance(importer, str) and self.kind(importer) != "quiet"
        wanted_by = (str(importer), self.kind(str(importer))) if is_known else importer_of(frame)
        if wanted_by is None:
            self.roots.add(name)
        else:
            edges = self.edges if wanted_by[1] == "own" else self.library_edges
            edges.setdefault(wanted_by[0], set()).add(name)
        return is_known or self.kind(name) == "quiet"

    def _are_quiet(self, *names: object) -> bool:
        """Return whether nothing depends on one module asking for another, as with most."""
        return all(name in self._quiet or self._is_quiet(name) for name in names)

    def _is_quiet(self, name: object) -> bool:
        if name not in sys.modules or not isinstance(name, str) or self.kind(name) != "quiet":
            return False
        self._quiet.add(name)
        return True

    def sought(self, name: str, frame: FrameType) -> None:
        """It was asked where a module is, without importing it."""
        for read in self._of(frame):
            read.modules.add(name)

    def worked_in(self, frame: FrameType) -> None:
        """The working folder decided where something is."""
        for read in self._of(frame):
            read.working_folder = True

    def searched(self) -> None:
        """Something is about to be imported along the present path of imports."""
        self.search.look()

    def left(self, what: str, frame: FrameType) -> None:
        """Code asked something outside of this process and its files."""
        for read in self._of(frame, caches=False):
            read.obstacles.add(what)

    def _of(self, frame: FrameType, *, caches: bool = True) -> Iterator[Read]:
        for name in owners(frame, caches=caches):
            if name != EVERYBODY:
                # Whatever led there, this job ran its code.
                self.roots.add(name)
            yield self._by_module.setdefault(name, Read())

    def file(self, name: str) -> str | None:
        module = sys.modules.get(name)
        spec = getattr(module, "__spec__", None)
        origin = getattr(spec, "origin", None) or getattr(module, "__file__", None)
        if isinstance(origin, str) and os.sep in origin:
            return origin
        place = self._path.find(name)
        return (place.file or next(iter(place.folders), None)) if place else None

    def kind(self, name: str) -> Kind:
        return kind_of(name, self.file(name))

    def is_own(self, name: str) -> bool:
        return self.kind(name) == "own"

    def is_missing(self, name: str) -> bool:
        return name not in sys.modules and self._path.find(name) is None


def _asked_for(frame: FrameType | None) -> tuple[str, str, list[str]]:
    """Return who asks something of a file through the standard library, what, and by which.

    It is `looked`, `links` or `sizes`.
    """
    functions = ["stat"]
    while frame is not None and _is_of_stdlib(frame):
        functions.append(frame.f_code.co_name)
        frame = frame.f_back
    asker = str(frame.f_globals.get("__name__")) if frame else ""
    if not _EXISTENCE.isdisjoint(functions):
        return asker, "looked", functions
    if not _LINK.isdisjoint(functions):
        return asker, "links", functions
    return asker, "sizes" if functions[-1] in _STAT else "looked", functions


def _is_of_stdlib(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] in sys.stdlib_module_names


def _lists_distributions(frame: FrameType | None) -> bool:
    """Return whether the standard library looks for installed distributions."""
    while frame is not None:
        name = str(frame.f_globals.get("__name__"))
        if name.startswith(_METADATA):
            return True
        if not _is_of_stdlib(frame):
            return False
        frame = frame.f_back
    return False


def _asker(frame: FrameType | None) -> str:
    """Return the module that asks for a variable, through what `os` offers for that or directly."""
    while frame is not None:
        name = str(frame.f_globals.get("__name__"))
        if name not in _TRANSPARENT or frame.f_code.co_name == "get_exec_path":
            return name
        frame = frame.f_back
    return ""
