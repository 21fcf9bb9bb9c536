"""What each module reads: its files, variables and imports, as hooks tell of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from aotbuild.store.import_path import ImportPath
from aotbuild.worker.recording.answers import FirstAnswers
from aotbuild.worker.recording.askers import (
    SAME,
    asked_for,
    asker_of,
    is_asked_by_own,
    lists_distributions,
)
from aotbuild.worker.recording.made import MadeFiles, is_of_tempfile
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
_FOLLOWING = ("realpath", "_joinrealpath")
# The file of a distribution that is compared whenever distributions were listed.
_ENTRY_POINTS = (".dist-info/entry_points.txt", ".egg-info/entry_points.txt")
_SETDEFAULT = type(os.environ).setdefault.__code__
# It asks which frames to leave out of what it prints.
_TRACEBACKS = "jax._src.traceback_util"
# What a user may do with a file, by the number that `os.access` has for it.
ALLOWED = {os.R_OK: "readable", os.W_OK: "writable", os.X_OK: "executable"}
_NOT_READ = os.O_WRONLY | os.O_TRUNC | os.O_EXCL


@dataclass
class Read:
    """What belongs to one module. `made` are files that it made itself, and read again.

    `asked` are the `variables` that it did more with than to give them a default.
    """

    files: set[str] = field(default_factory=set)
    sources: set[str] = field(default_factory=set)
    listings: set[str] = field(default_factory=set)
    looked: set[str] = field(default_factory=set)
    readable: set[str] = field(default_factory=set)
    writable: set[str] = field(default_factory=set)
    executable: set[str] = field(default_factory=set)
    sizes: set[str] = field(default_factory=set)
    links: set[str] = field(default_factory=set)
    modules: set[str] = field(default_factory=set)
    variables: set[str] = field(default_factory=set)
    asked: set[str] = field(default_factory=set)
    distributions: bool = False
    working_folder: bool = False
    made: set[str] = field(default_factory=set)
    obstacles: set[str] = field(default_factory=set)


class ReadsByModule:
    """A `Reader` that knows what belongs to which module.

    `edges` is what modules of the user's ask for, `library_edges` what those of libraries do.
    `search` sees what code adds to the places of modules. `roots` are modules whose code was at
    work, `library_files` the sources of libraries. `path` is where imports lead to. `hold` gets
    each installed file before it is read. `answers` has what was found first.
    """

    def __init__(self, path: ImportPath, hold: Callable[[str], None]) -> None:
        self._path, self._hold = path, hold
        self._made = MadeFiles()
        self._by_module: dict[str, Read] = {}
        self.edges: dict[str, set[str]] = {}
        self.library_edges: dict[str, set[str]] = {}
        self._run_as: dict[str, set[str]] = {}
        self.roots: set[str] = set()
        self.library_files: set[str] = set()
        self.answers = FirstAnswers()
        self._quiet: set[object] = set()
        self.search = SearchPath(self.is_own)

    def by(self, module: str) -> Read:
        """Return what belongs to a module."""
        return self._by_module.get(module) or Read()

    def opened(self, path: str, frame: FrameType, flags: int = os.O_RDONLY) -> None:
        """A file was opened, or could not be."""
        self._made.opened(path, frame, flags)
        if flags & _NOT_READ:
            if flags & os.O_EXCL and not is_of_tempfile(frame):
                self._note("looked", path, frame)
            return
        if lists_distributions(frame):
            self.listed(path, frame)
            if path.endswith(_ENTRY_POINTS):
                return
        if not self._is_made(path, frame):
            if looks_installed(path):
                self._hold(path)
            self._note("files", path, frame)
            if Path(path).is_dir():
                self.entered(path, frame)

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
        if lists_distributions(frame):
            for read in self._of(frame):
                read.distributions = True
        elif not self._is_made(path, frame):
            self._note("listings", path, frame)

    def looked(self, path: str, frame: FrameType, *, follows: bool = True) -> None:
        """It was asked whether a file exists, or what the system knows of it.

        With `follows` false, of a link itself.
        """
        if lists_distributions(frame):
            self.listed(path, frame)
            return
        if self._is_made(path, frame):
            return
        if _follows_links(frame):
            # It asks for every folder on the way: one that is none may become a link.
            if not looks_installed(path):
                self._note("links", path, frame)
            return
        asker, kind, functions = asked_for(frame)
        if asker == _TRACEBACKS:
            return
        self._note(kind, path, frame)
        if not follows:
            self._note("links", path, frame)
        if SAME in functions:
            # Each folder on the way may be a link.
            for each in (path, *map(str, Path(path).parents)):
                self._note("links", each, frame)

    def allowed(self, path: str, mode: int, frame: FrameType) -> None:
        """It was asked what this user may do with a file: a sum of R_OK, W_OK and X_OK."""
        if not self._is_made(path, frame):
            for bit, kind in ALLOWED.items():
                if mode & bit:
                    self._note(kind, path, frame)

    def entered(self, folder: str, frame: FrameType) -> None:
        """A folder became the working folder, or could not, or was opened."""
        self._note("looked", folder, frame)
        for path in (folder, *map(str, Path(folder).parents)):
            if not looks_installed(path):
                self._note("links", path, frame)

    def followed(self, path: str, frame: FrameType) -> None:
        """It was asked where a link leads to."""
        self._note("links", path, frame)

    def replaced(self, path: str) -> None:
        """A path is about to be another file, or none."""
        self._made.forget(path)

    def made(self, folder: str) -> None:
        """A folder with a name that nobody else has is about to be made."""
        self._made.made(folder)

    def variable(self, name: str | None, frame: FrameType) -> None:
        """A variable of the environment was read; None: all of them."""
        asker = asker_of(frame)
        if name in _WHEREABOUTS.get(asker, ()) and not is_asked_by_own(frame):
            return
        if asker in _SCANNERS:
            name = f"{_SCANNERS[asker]}*"
        for read in self._of(frame):
            if name is None:
                read.obstacles.add("reads the whole environment")
            else:
                read.variables.add(name)
                if not _gives_default(frame):
                    read.asked.add(name)
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
            if is_known and isinstance(file := frame.f_globals.get("__file__"), str):
                self._run_as.setdefault(file, set()).add(wanted_by[0])
        return is_known or self.kind(name) == "quiet"

    def run_by(self, name: str) -> set[str]:
        """Return the modules whose source a module has read: to run it, if it did not import it.

        That is what `spec_from_file_location` and `runpy` are for.
        """
        files = self.by(name).sources
        return {each for file in files for each in self._run_as.get(file, ())}

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

    def _is_made(self, path: str, frame: FrameType) -> bool:
        is_made = self._made.has(path, frame)
        for read in self._of(frame) if is_made else ():
            read.made.add(path)
        return is_made

    def _note(self, kind: str, path: str, frame: FrameType) -> None:
        for read in self._of(frame):
            getattr(read, kind).add(path)
            self.answers.note(kind, path)

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


def _follows_links(frame: FrameType) -> bool:
    """Return whether `os.path.realpath` asks, and no function of the user's with its name."""
    is_ours = frame.f_globals.get("__name__") == os.path.__name__
    return is_ours and frame.f_code.co_name in _FOLLOWING


def _gives_default(frame: FrameType) -> bool:
    """Return whether `os.environ.setdefault` asks, directly or through its `in`."""
    asks = (frame, frame.f_back)
    return any(each is not None and each.f_code is _SETDEFAULT for each in asks)
