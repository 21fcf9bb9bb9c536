"""What the jobs of this process read, summed up for each of them."""

from __future__ import annotations

import importlib.machinery
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import filterfalse
from pathlib import Path

from aotbuild.store.file_digests import ChangedSince, FileDigests, NoFile
from aotbuild.store.import_path import ImportPath, other_finders
from aotbuild.store.marks import Marks, marks_of
from aotbuild.store.read_set import (
    ROOT_FOLDER,
    STARTING,
    WORKING_FOLDER,
    Places,
    ReadSet,
    World,
    joined,
    state_of,
)
from aotbuild.worker.recording.by_module import ALLOWED, Read, ReadsByModule
from aotbuild.worker.recording.events import watch_events
from aotbuild.worker.recording.functions import watch_functions
from aotbuild.worker.recording.imported import all_imported, closure, loaded_before
from aotbuild.worker.recording.imports import watch_imports
from aotbuild.worker.recording.obstacles import obstacles_of
from aotbuild.worker.recording.owners import EVERYBODY, looks_installed
from aotbuild.worker.recording.reader import unseen
from aotbuild.worker.recording.whereabouts import Whereabouts

# What the operating system gives; it is not looked at again.
_SYSTEM = (
    *("/bin/", "/dev/", "/etc/", "/lib/", "/lib64/", "/proc/", "/run/", "/sbin/", "/sys/"),
    *("/usr/", "/var/run/"),
)
# Where users put data there.
_DATA = (
    *("/dev/shm/", "/run/media/", "/run/user/", "/usr/local/share/", "/usr/local/src/"),  # noqa: S108
    *("/usr/src/", "/var/run/user/"),
)
# Another digest stands for aotbuild.
_AOTBUILD = f"{Path(__file__).parents[2]}{os.sep}"
_UP = f"{os.sep}{os.pardir}{os.sep}"
# What Python imports when it starts, if it is there.
_STARTING = ("sitecustomize", "usercustomize")
_TOO_LATE = "jax is imported when Python starts, by sitecustomize or a .pth file"


@dataclass(frozen=True)
class JobInputs:
    """What a job read: its own part, what all jobs of the process share, and the state of both.

    `marks` are those of both. `obstacle` says why nothing stands for it; there is no state then.
    """

    own: ReadSet
    shared: ReadSet
    state: str
    obstacle: str = ""
    marks: tuple[Marks, Marks] | None = None


class Recorder:
    """Sees what this process reads from now on. `root` is the project's folder."""

    def __init__(self, root: Path, digests: FileDigests) -> None:
        # Before the user's code, which may change them.
        self._started = time.time_ns()
        path = ImportPath(
            tuple(entry for entry in sys.path if entry),
            tuple(importlib.machinery.all_suffixes()),
            other_finders,
        )
        self._places = Places(str(root), path)
        self._digests = digests
        self._environment = dict(os.environ)
        self._reads = ReadsByModule(path, digests.hold)
        self._temporary = tempfile.gettempdir()
        self._where, self._said = Whereabouts(str(root)), ""
        is_outside = not self._places.is_in_project(self._places.working)
        working = self._places.working if is_outside else ""
        self._where_from_here = Whereabouts(str(root), working)
        for module in [*sys.modules.values()]:
            origin = getattr(getattr(module, "__spec__", None), "origin", None)
            if isinstance(origin, str) and looks_installed(origin):
                digests.hold(origin)
        # Python has read them; an installer may link them into another environment at any time.
        for entry in path.entries:
            for file in Path(entry).glob("*.pth") if looks_installed(f"{entry}{os.sep}") else ():
                digests.hold(str(file))
        self._before = loaded_before(self._reads)
        self._is_too_late = "jax" in sys.modules
        watch_events(self._reads)
        watch_functions(self._reads)
        watch_imports(self._reads)

    def begin(self, references: Iterable[str], said: str) -> None:
        """Begin a job that names `module:qualname`s; `said` is all that the manifest says of it."""
        self._said = said
        self._reads.roots = {reference.partition(":")[0] for reference in references}

    def modules(self) -> frozenset[str]:
        """Return the user's own modules that the job has used so far, loaded or not."""
        with unseen():
            return frozenset(closure(self._reads, self._places.path, self._before))

    def askers_of(self, variable: str) -> tuple[str, ...]:
        """Return the user's own modules of the job that a variable may have decided something in.

        A module that only gives it a default is none of them.
        """
        return tuple(n for n in sorted(self.modules()) if variable in self._reads.by(n).asked)

    def end(self) -> JobInputs:
        """Return what the job read."""
        with unseen():
            names = closure(self._reads, self._places.path, self._before)
            imported = all_imported(self._reads, self._places.path)
            self._reads.search.look()
            self._reads.search.look_at_packages(self._places.path)
            common = self._reads.by(EVERYBODY)
            own = self._set(names, [self._reads.by(name) for name in names], imported.files)
            if self._knows_where(names):
                own = replace(own, links=tuple(sorted((*own.links, ROOT_FOLDER))))
            # A module of the user's is its importers' affair, also if a library quotes it.
            known = imported.files | imported.own_files
            imported.libraries.update(_STARTING)
            shared = self._set(imported.libraries, [common], known, imported.lost)
            shared = replace(shared, files=tuple(sorted((*shared.files, STARTING))))
            obstacle = next(obstacles_of(self._reads, self._places.path, names), "")
            if not obstacle and self._is_too_late:
                obstacle = _TOO_LATE
            sets, (own, shared) = (own, shared), (own.encodable(), shared.encodable())
            if sets != (own, shared):
                obstacle = obstacle or "a name that was read is not UTF-8"
            if obstacle:
                return JobInputs(own, shared, "", _encodable(obstacle))
            world = World(self._places, self._digests, self._environment, self._started)
            try:
                self._check_changes(own, shared)
                self._check_made({*names, EVERYBODY})
                moved = self._reads.search.changed({*own.modules, *shared.modules})
                if moved is not None:
                    raise ChangedSince(moved)
                rows = world.rows(own), world.rows(shared)
                marks = marks_of(rows[0]), marks_of(rows[1])
                return JobInputs(own, shared, joined(*map(state_of, rows)), marks=marks)
            except NoFile as err:
                obstacle = f"{_encodable(str(err))} is a pipe or a device, which was read"
                return JobInputs(own, shared, "", obstacle)
            except ChangedSince as err:
                obstacle = f"{_encodable(str(err))} was written to while it was used"
                return JobInputs(own, shared, "", obstacle)
            finally:
                self._digests.save()

    def _knows_where(self, modules: Iterable[str]) -> bool:
        """Return whether these modules may have read a file of the project by where that is.

        Then another checkout would read the same file, and not its own.
        """
        reads = [self._reads.by(name) for name in (*modules, EVERYBODY)]
        kinds = ("files", "listings", "looked", *ALLOWED.values(), "sizes", "links")
        read = {path for each in reads for kind in kinds for path in getattr(each, kind)}
        if not any(map(self._places.is_in_project, filterfalse(looks_installed, read))):
            return False
        is_from_here = any(each.working_folder for each in reads)
        where = self._where_from_here if is_from_here else self._where
        variables = [self._environment.get(name) for each in reads for name in each.variables]
        if any(map(where.is_in, filter(None, (self._said, *variables)))):
            return True
        files = {path for each in reads for path in (*each.files, *each.sources)}
        files.update(filter(None, map(self._reads.file, modules)))
        return any(map(where.is_in_file, filterfalse(looks_installed, files)))

    def _check_changes(self, *sets: ReadSet) -> None:
        """Raise ChangedSince if there is an answer that is not what it was at first."""
        for kind, path in self._reads.answers.changed():
            names = {name for each in sets for name in getattr(each, kind)}
            if not names.isdisjoint(self._names(path)):
                raise ChangedSince(path)

    def _check_made(self, modules: Iterable[str]) -> None:
        """Raise ChangedSince if a file that was made and read again stays for the next build."""
        for path in sorted({path for name in modules for path in self._reads.by(name).made}):
            is_temporary = path.startswith(f"{self._temporary}/") and not self._places.name(
                path
            ).startswith(("root:", "import:"))
            if not is_temporary and os.path.lexists(path):
                raise ChangedSince(path)

    def _set(
        self, modules: Iterable[str], reads: list[Read], known: set[str], files: Iterable[str] = ()
    ) -> ReadSet:
        """Return what was read, without files of modules that something else stands for."""

        def every(kind: str) -> set[str]:
            return {each for read in reads for each in [*getattr(read, kind)]}

        def names(paths: Iterable[str]) -> tuple[str, ...]:
            found = {name for p in paths for name in self._names(p)}
            return tuple(sorted(found))

        def inside(kind: str) -> Iterator[str]:
            return filter(self._is_inside, every(kind) - known)

        work = [WORKING_FOLDER] if any(read.working_folder for read in reads) else []
        return ReadSet(
            modules=tuple(sorted({*modules, *every("modules")})),
            files=names({*files, *((every("files") | every("sources")) - known)}),
            listings=names(every("listings")),
            looked=names(inside("looked")),
            # Also of modules, and of folders on the way: they exist, but that says no more.
            **{kind: names(every(kind)) for kind in ALLOWED.values()},
            sizes=names(inside("sizes")),
            links=tuple(sorted((*names(inside("links")), *work))),
            searched=names(self._reads.search.folders),
            variables=tuple(sorted(every("variables"))),
            distributions=any(read.distributions for read in reads),
        )

    def _names(self, path: str) -> set[str]:
        """Return the names of a path; none if something else stands for it."""
        if path.startswith(_AOTBUILD):
            return set()
        name = self._places.name(path)
        is_given = _is_of_system(name) and _UP not in name
        return set() if is_given else self._places.names(path)

    def _is_inside(self, path: str) -> bool:
        """Return whether a path is not on the way to the project, or to a place of modules."""
        places = (self._places.root, self._places.home, sys.prefix, *self._places.path.entries)
        return not any(f"{place}/".startswith(f"{path}/") for place in places)


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _is_of_system(name: str) -> bool:
    return name.startswith(_SYSTEM) and not f"{name}/".startswith(_DATA)
