"""What a computation read, by names that mean the same on another machine; and its present state.

A name is not a path: the same project may be in another folder there, and its libraries in an
environment of their own. The state is a digest of what is found now under these names, missing
files included, so two equal states mean that the computation would read the same again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from aotbuild.format.canonical import canonical_digest, flag, is_utf8, sha256_hex, texts
from aotbuild.store.file_digests import FOLDER, MISSING, FileDigests
from aotbuild.store.folder_names import (
    executable_at,
    kind_at,
    link_at,
    modules_in,
    names_in,
    readable_at,
    size_at,
    writable_at,
)
from aotbuild.store.import_path import ImportPath, ModulePlace, is_of_pip

# Of `files`, all those that have Python import something when it starts.
STARTING = "start:*.pth"
_DISTRIBUTIONS = (".dist-info", ".egg-info")
# Of `links`, the one that leads to the folder a build was started in.
WORKING_FOLDER = "working folder"
# Another of them: where the project itself is.
ROOT_FOLDER = "project folder"
_INSTALLED = ("/site-packages/", "/dist-packages/")
# Labels of names outside of the project, relative to it, and to where a link to it leads.
_BESIDE, _BESIDE_REAL = "beside", "beside-real"


@dataclass(frozen=True)
class ReadSet:
    """The names of what was read. All tuples are sorted.

    `modules` were imported, or looked for in vain. `files` were opened, the names in `listings`
    were read, of `looked` it was asked whether it exists, of `readable`, `writable` and
    `executable` whether it may be used so, of `sizes` how large it is, and of `links` where it
    leads to. In the folders `searched`, modules were looked for. `variables` are
    of the environment; a star at the end of a name stands for all that begin like it.
    `distributions` says whether installed distributions were listed.
    """

    modules: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    listings: tuple[str, ...] = ()
    looked: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    executable: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    searched: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    distributions: bool = False

    @property
    def is_local(self) -> bool:
        """Whether a name is an absolute path, which means nothing on another machine."""
        kinds = (
            *(self.files, self.listings, self.looked, self.sizes, self.links, self.searched),
            *(self.readable, self.writable, self.executable),
        )
        return any(name.startswith("/") for names in kinds for name in names)

    def encodable(self) -> ReadSet:
        """Return it without names that are not UTF-8, which no entry can have."""
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        kept: dict[str, Any] = {
            n: v if v is True else (*filter(is_utf8, v),) for n, v in found.items() if v
        }
        return ReadSet(**kept)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON, without what is empty."""
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        return {n: v if v is True else list(v) for n, v in found.items() if v}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> ReadSet:
        """Read the JSON form; TypeError for anything else."""
        found: dict[str, Any] = {
            name: flag(value) if name == "distributions" else texts(value)
            for name, value in data.items()
        }
        return ReadSet(**found)


def union(sets: Iterable[ReadSet]) -> ReadSet:
    """Return all names of some sets as one."""
    sets = list(sets)

    def names(kind: str) -> tuple[str, ...]:
        return tuple(sorted({name for each in sets for name in getattr(each, kind)}))

    kinds = (each.name for each in fields(ReadSet) if each.name != "distributions")
    listed = any(each.distributions for each in sets)
    return ReadSet(**{kind: names(kind) for kind in kinds}, distributions=listed)


def _working_folder() -> str:
    """Return the working folder; nothing if somebody removed it."""
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return ""


@dataclass(frozen=True)
class Places:
    """Where names are found: the project's folder, the path of imports, the user's home.

    `working` is the working folder.
    """

    root: str
    path: ImportPath
    home: str = field(default_factory=lambda: str(Path.home()))
    working: str = field(default_factory=_working_folder)

    def names(self, path: str) -> set[str]:
        """Return all names of a file or folder: the one that `name` gives, and more.

        A file beside the project may have been reached from the project or not, which nobody knows.
        So it has a name for each way: if what they mean here is the same, any way leads to it.
        One that a link from elsewhere leads to keeps its own path: the link may be another one.
        """
        found = self.name(path)
        if found.startswith("import:") or self._is_below("root", path):
            return {found}
        own = {found} if self._is_below("home", path) else {found, path}
        path = os.path.abspath(path)  # noqa: PTH100 (follows no link)
        real = os.path.realpath(self.root)
        beside = {f"{_BESIDE}:{os.path.relpath(path, self.root)}"}
        if real != self.root:
            beside.add(f"{_BESIDE_REAL}:{os.path.relpath(path, real)}")
        return own | beside

    def name(self, path: str) -> str:
        """Return the name of a file or folder: `import:…`, `root:…`, `home:…`, or its path.

        A `..` stays in it, because it may follow a link.
        """
        for entry in sorted(set(self.path.entries), key=len, reverse=True):
            relative = _below(entry, path)
            if relative is None or relative == "." or relative.startswith(os.pardir):
                continue
            if self.path.first(relative) in (path, None):
                return f"import:{relative}"
        for label in ("root", "home"):
            # A project may be reached through a link.
            for found in (path, os.path.realpath(path)):
                relative = self._is_below(label, found)
                if relative:
                    return f"{label}:{relative}"
        return path

    def is_in_project(self, path: str) -> bool:
        """Return whether a path is below the project's folder, without following links in it."""
        return self._is_below("root", path) is not None

    def _is_below(self, label: str, path: str) -> str | None:
        """Return a path relative to the project or to the home folder; None for another one."""
        folder = {"root": self.root, "home": self.home}[label]
        return _below(folder, path) or _below(os.path.realpath(folder), path)

    def found(self, name: str) -> list[tuple[str, str]]:
        """Return what each folder of the path of imports has under a name `import:…`.

        With each is which of them it is: code may look beside its own module, and not for the
        first. A folder of the project has its name, installations have one, and others a number.
        """
        others = [entry for entry in dict.fromkeys(self.path.entries) if self._is_other(entry)]
        kinds = {entry: f"other {number}" for number, entry in enumerate(others)}
        return [
            (kinds.get(entry) or self._is_below("root", entry) or "installed", place)
            for entry, place in self.path.every(name.removeprefix("import:"))
        ]

    def _is_other(self, entry: str) -> bool:
        is_installed = any(part in f"{entry}/" for part in _INSTALLED)
        is_of_build = is_of_pip(os.path.join(entry, "sitecustomize.py"))
        return not (is_installed or is_of_build or self._is_below("root", entry))

    def place(self, name: str) -> str:
        """Return the path that a name means here."""
        if name == WORKING_FOLDER:
            return self.working
        label, _, relative = name.partition(":")
        if label == "import":
            # Where it does not exist, any of them will do.
            return self.path.first(relative) or os.path.join(self.path.entries[0], relative)
        if label in (_BESIDE, _BESIDE_REAL):
            folder = self.root if label == _BESIDE else os.path.realpath(self.root)
            return os.path.normpath(os.path.join(folder, relative))
        folders = {"root": self.root, "home": self.home}
        return os.path.join(folders[label], relative) if label in folders else name


@dataclass(frozen=True)
class World:
    """What can be read now. Every question about the present state goes through it.

    With `since`, a time in nanoseconds, `rows` raises ChangedSince if anything was written later.
    """

    places: Places
    digests: FileDigests
    environment: Mapping[str, str]
    since: int | None = None

    def state(self, names: ReadSet) -> str:
        """Return the digest of what is there now under these names."""
        return state_of(self.rows(names))

    def rows(self, names: ReadSet) -> dict[str, list[Any]]:
        """Return what is there now, by the kinds of names: each name, and what was found."""
        return {
            "modules": [[name, *self._module(name)] for name in names.modules],
            "files": [[name, self._file(name)] for name in names.files],
            "listings": [[name, self._at(name, self._listing)] for name in names.listings],
            "looked": [[name, self._at(name, kind_at)] for name in names.looked],
            "readable": [[name, self._at(name, readable_at)] for name in names.readable],
            "writable": [[name, self._at(name, writable_at)] for name in names.writable],
            "executable": [[name, self._at(name, executable_at)] for name in names.executable],
            "sizes": [[name, self._at(name, size_at)] for name in names.sizes],
            "links": [[name, self._link(name)] for name in names.links],
            "searched": [
                [name, self._at(name, lambda place: self._modules_in(place, names.modules))]
                for name in names.searched
            ],
            "variables": [[name, self.variable(name)] for name in names.variables],
            "distributions": self._distributions() if names.distributions else [],
        }

    def variable(self, name: str) -> str | list[tuple[str, str]] | None:
        """Return the value of a variable, or all that begin like a name with a star."""
        start = name.removesuffix("*")
        if start == name:
            return self.environment.get(name)
        return sorted(pair for pair in self.environment.items() if pair[0].startswith(start))

    def _module(self, name: str) -> tuple[str, str]:
        """Return the form of a module, as `.py` or `/__init__.py`, and the digest of its file."""
        found = self.places.path.find(name)
        if found and is_of_pip(found.file):
            return MISSING, ""
        if found is None or found.file is None:
            return ("namespace" if found else MISSING), ""
        return form(name, found), self.digests.of(found.file, since=self.since)

    def _file(self, name: str) -> Any:
        if name == STARTING:
            files = self.places.path.starting()
            return canonical_digest([self.digests.of(file, since=self.since) for file in files])
        return self._at(name, lambda place: self.digests.of(place, since=self.since))

    def _at(self, name: str, ask: Callable[[str], Any]) -> Any:
        """Return the answer to a question about a name: of each place that it may mean."""
        if name.startswith("import:"):
            answers = [[entry, ask(place)] for entry, place in self.places.found(name)]
            if answers := [each for each in answers if each[1] not in (MISSING, "")]:
                return answers
        return ask(self.places.place(name))

    def _listing(self, place: str) -> str:
        # A folder's times change with its names.
        if self.digests.of(place, since=None) != FOLDER:
            return MISSING
        return canonical_digest(names_in(place))

    def _modules_in(self, place: str, modules: Iterable[str]) -> str:
        """Return the digest of the names in a folder that these modules may have."""
        if self.digests.of(place, since=None) != FOLDER:
            return self.digests.of(place, since=self.since)  # of a zip
        return canonical_digest(modules_in(place, modules))

    def _link(self, name: str) -> Any:
        if name == WORKING_FOLDER:
            return self.places.name(self.places.working)
        if name == ROOT_FOLDER:
            return self.places.root
        return self._at(name, self._target)

    def _target(self, place: str) -> str:
        target = link_at(place)
        return self.places.name(target) if target else ""

    def _distributions(self) -> list[list[str]]:
        """Return the installed distributions, and the digest of what each offers to others."""
        path = self.places.path
        return sorted(
            [name, self.digests.of(os.path.join(entry, name, "entry_points.txt"))]
            for entry in path.entries
            for name in path.names(entry)
            if name.endswith(_DISTRIBUTIONS)
        )


def form(name: str, found: ModulePlace) -> str:
    """Return what follows the module's last name in the path of its file."""
    stem = name.rpartition(".")[2]
    file = str(found.file)
    folder = os.path.dirname(os.path.dirname(file) if found.folders else file)
    return file[len(os.path.join(folder, stem)) :]


def state_of(rows: Mapping[str, list[Any]]) -> str:
    """Return the digest of what `World.rows` gives."""
    return canonical_digest(rows)


def joined(own: str, shared: str) -> str:
    """Return the state of what a job read, from that of its own part and of the shared one."""
    return sha256_hex(f"{own}:{shared}".encode())


def _below(folder: str, path: str) -> str | None:
    """Return a path relative to a folder that it is or is in; None for another one."""
    if path == folder:
        return "."
    start = folder.rstrip("/") + "/"
    return path[len(start) :] if path.startswith(start) and len(path) > len(start) else None
