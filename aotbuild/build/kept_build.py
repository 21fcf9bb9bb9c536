"""An unchanged build: the key over everything that decides it, and its result in the store.

Two builds with equal keys make the same package, so the second takes what the first one kept. The
key is made before anything is traced. In it are

- the files of the project's folder, and of folders on the path of imports that are not installed,
- the manifest with the files that it names, and the plan that was made from it,
- the distributions that are installed where it compiles, by their RECORDs,
- aotbuild's own files, the Python, the machine, and the environment variables.

What a trace reads is not recorded. A function that reads a file outside of all of these while it is
traced, or asks a server, is traced again only when the key changes: `aotbuild build --fresh` traces
everything in any case.
"""

from __future__ import annotations

import os
import platform
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from json import JSONDecodeError, loads
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from aotbuild.build.assemble import identity_of
from aotbuild.build.plan import Plan
from aotbuild.build.project import SourceTree
from aotbuild.build.project_files import LIBRARIES, TooLarge, is_walked, project_files
from aotbuild.build.worker_settings import encodings, is_forwarded
from aotbuild.format.canonical import canonical_json, mapping, sha256_hex, text, texts, whole
from aotbuild.format.files import file_digest, write_whole
from aotbuild.format.index import INDEX_NAME, Index
from aotbuild.format.layout import BLOBS
from aotbuild.format.record import Record
from aotbuild.platforms.base import machine
from aotbuild.store.entry import KEY, Entry
from aotbuild.store.folder import Store
from aotbuild.store.keys import blob_key, build_key

# The name of a blob's file: its digest and its kind.
_BLOB = re.compile(r"([0-9a-f]{64})\.([A-Za-z0-9]+)")
_METADATA = (".dist-info", ".egg-info")
_OWN = ("aotbuild", "hatch_aotbuild")
# Variables that decide where things are, how many run at once, or what is said.
_INDIFFERENT = frozenset(
    {
        *("AOTBUILD_DEBUG", "AOTBUILD_JOBS", "AOTBUILD_STORE", "AOTBUILD_TIMEOUT"),
        "AOTBUILD_TOOLCHAINS",
        # Of shells and terminals.
        *("_", "COLORTERM", "COLUMNS", "DISPLAY", "EDITOR", "LINES", "LS_COLORS", "MAIL", "OLDPWD"),
        *("PAGER", "PS1", "PWD", "SHELL", "SHLVL", "TERM", "TMPDIR", "WINDOWID"),
        # Paths of environments; what is installed there is in the key.
        *("PATH", "PYTHONHOME", "PYTHONNOUSERSITE", "PYTHONPATH", "VIRTUAL_ENV"),
    }
)
_INDIFFERENT_PREFIXES = (
    *("SSH_", "XDG_", "DBUS_", "GPG_", "TERM_", "TMUX", "VSCODE_", "VIRTUAL_ENV_"),
    *("PIP_", "UV_", "PEP517_", "_PYPROJECT_HOOKS_", "PYTEST_"),
)


class Inputs:
    """The project's files when a build began, and the key of what it makes of them.

    `apart` are folders that a build writes itself.
    """

    def __init__(self, plan: Plan, sources: SourceTree, apart: Iterable[Path]) -> None:
        self._plan, self._sources, self._apart = plan, sources, tuple(apart)
        self.files = self.files_now()

    def files_now(self) -> Mapping[str, str] | None:
        """Return the digests of the project's files as they are now; None if there are too many."""
        try:
            return project_files(self._sources.root, self._apart)
        except TooLarge:
            return None

    def key(self, files: Mapping[str, str] | None) -> str | None:
        """Return the store's key of the build with these files; None if there are too many."""
        plan, sources = self._plan, self._sources
        toolchains = plan.environment.toolchains
        if not files:
            return None
        try:
            found = [installed(_import_path(t.interpreter), sources.root) for t in toolchains]
            own = {name: _tree(place) for name in _OWN for place in _folders_of(name)}
        except (TooLarge, OSError):
            return None
        facts: dict[str, Any] = {
            "aotbuild": own,
            "files": [list(pair) for pair in sorted(files.items())],
            "package": [sources.package, sources.below(sources.import_root)],
            "manifest": [plan.manifest.content, plan.manifest.digest],
            "units": [[str(unit), unit.hardware.to_json()] for unit in plan.units],
            "toolchains": [[str(t), each] for t, each in zip(toolchains, found, strict=True)],
            "machine": machine().to_json(),
            "python": [platform.python_implementation(), sys.version, sys.platform],
            "encodings": list(encodings()),
            "variables": {
                ascii(name): ascii(value) for name, value in os.environ.items() if _decides(name)
            },
        }
        return build_key(facts)

    def edited(self, now: Mapping[str, str] | None) -> list[str]:
        """Return which modules, imported or not, or the manifest, differ from when the build began.

        `now` is from `files_now`. New files, which the user's code may write, are no edit. Nothing
        is known where there are too many files.
        """
        if self.files is None or now is None:
            return []
        manifest, before = self._sources.below(Path(self._plan.manifest.file)), self.files
        read = [name for name in before if name.endswith(".py") or name == manifest]
        return [name for name in read if before[name] != now.get(name)]


def installed(path: Iterable[str], root: Path) -> list[Any]:
    """Return what can be imported from a path of imports: distributions, and other folders' files.

    Distributions have the digest of their RECORD; one that was installed as editable has that of
    its folder's files instead, unless they are those of the project at `root`, which are known.
    """
    found: list[Any] = []
    stdlib = {os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")}
    for entry in dict.fromkeys(path):
        folder = Path(entry)
        real = os.path.realpath(folder)
        if not folder.is_dir() or real in stdlib or Path(real).name == "lib-dynload":
            continue
        if folder.name in LIBRARIES:
            places = sorted(each for each in folder.iterdir() if each.name.endswith(_METADATA))
            found += [_distribution(each, root) for each in places]
            found += [[each.name, file_digest(each)] for each in sorted(folder.glob("*.pth"))]
        elif not (is_walked(root, folder) or _is_own(folder) or _has_no_modules(folder)):
            found.append(_tree(folder))
    return found


def _distribution(place: Path, root: Path) -> list[Any]:
    """Return a distribution's name with its version, and the digest of its files."""
    editable = _editable_folder(place)
    name = place.name.partition("-")[0]
    if editable and name not in _OWN and not is_walked(root, editable):
        return [place.name, _tree(editable)]
    record = place / "RECORD"
    if editable or not record.is_file():
        return [place.name]
    # Scripts begin with the path of their Python, and the rest says where this was installed from.
    lines = [
        line
        for line in record.read_text("utf-8", "replace").splitlines()
        if not line.startswith((f"{place.name}/", "../", "/")) and ".pyc," not in line
    ]
    wheel = place / "WHEEL"  # two wheels of one version differ in their platform
    tags = wheel.read_text("utf-8", "replace") if wheel.is_file() else ""
    return [place.name, sha256_hex("\n".join([*sorted(lines), tags]).encode())]


def _editable_folder(place: Path) -> Path | None:
    """Return the folder of an editable distribution; None for any other."""
    try:
        found = loads((place / "direct_url.json").read_bytes())
        url = urlsplit(found["url"])
        is_editable = found.get("dir_info", {}).get("editable", False)
    except (OSError, JSONDecodeError, KeyError, TypeError, AttributeError, ValueError):
        return None
    return Path(unquote(url.path)) if is_editable and url.scheme == "file" else None


def _tree(folder: Path) -> str:
    return sha256_hex(canonical_json(project_files(folder)))


def _folders_of(package: str) -> Iterator[Path]:
    spec = find_spec(package)
    yield from map(Path, (spec and spec.submodule_search_locations) or ())


def _import_path(interpreter: Path | None) -> list[str]:
    """Return the folders that an interpreter imports from; by default those of this process."""
    if interpreter is None:
        return [str(Path(entry).absolute()) for entry in sys.path if entry]
    return sorted(map(str, interpreter.parent.parent.glob("lib*/python*/site-packages")))


def _is_own(folder: Path) -> bool:
    """Return whether a folder has aotbuild itself, whose files are in the key anyway."""
    return any(folder == place.parent for name in _OWN for place in _folders_of(name))


def _has_no_modules(folder: Path) -> bool:
    """Return whether a folder has the scripts of an environment, or pip's own `sitecustomize`.

    pip writes the latter for an isolated build; the former is where a command was started.
    """
    is_of_pip = folder.name == "site" and (folder.parent / "overlay").is_dir()
    return is_of_pip or (folder.parent / "pyvenv.cfg").is_file()


def _decides(name: str) -> bool:
    """Return whether the code of a build may see a variable, and its value may matter."""
    is_indifferent = name in _INDIFFERENT or name.startswith(_INDIFFERENT_PREFIXES)
    return is_forwarded(name) and not is_indifferent


@dataclass(frozen=True)
class KeptBuild:
    """The index of a finished package, and where the store has its blobs.

    `blobs` has the store's key of each blob by the name of its file. `order` has the place of each
    unit's record among those of the index, in the plan's order. `notes` are those of the package.
    """

    index: bytes
    blobs: Mapping[str, str]
    order: Sequence[int]
    notes: tuple[str, ...]

    def to_entry(self) -> Entry:
        """Return the entry of the store."""
        facts = {
            "entry": "build",
            "blobs": dict(self.blobs),
            "order": list(self.order),
            "notes": list(self.notes),
        }
        return Entry(facts, self.index)

    @classmethod
    def from_entry(cls, entry: Entry) -> KeptBuild:
        """Read such an entry; ValueError, TypeError or KeyError for anything else.

        Names and keys become paths, so nothing but what this writes is taken.
        """
        facts = entry.facts
        blobs = {text(name): text(key) for name, key in mapping(facts["blobs"]).items()}
        for name, key in blobs.items():
            if not _BLOB.fullmatch(name) or not KEY.fullmatch(key):
                msg = f"expected a blob and its key, found {name!r} and {key!r}"
                raise ValueError(msg)
        order = tuple(map(whole, facts["order"]))
        found = cls(entry.data, blobs, order, texts(facts["notes"]))
        found.records()
        return found

    def records(self) -> list[Record]:
        """Return the record of each unit, in the plan's order."""
        records = _records_of(self.index)
        return [records[place] for place in self.order]


def recall(store: Store, key: str, staging: Path) -> KeptBuild | None:
    """Write the package that was kept under a key into `staging`; None if the store lacks a part.

    `staging` is an `_aot` folder with an empty folder for blobs.
    """
    kept = store.parsed(key, KeptBuild.from_entry)
    if kept is None:
        return None
    for name, blob in kept.blobs.items():
        entry = store.get(blob)
        if entry is None or sha256_hex(entry.data) != name.partition(".")[0]:
            return None
        write_whole(staging / BLOBS / name, entry.data)
    write_whole(staging / INDEX_NAME, kept.index)
    return kept


def keep(
    store: Store,
    key: str,
    folder: Path,
    index: bytes,
    records: Iterable[Record],
    stored: Mapping[str, str],
    notes: tuple[str, ...],
) -> None:
    """Keep a finished package with its index; `stored` has the store's keys of blobs by SHA-256.

    Executables that the store may not keep, as XLA measured while it compiled them, keep a build
    from being kept, too.
    """
    places = {record: number for number, record in enumerate(map(identity_of, _records_of(index)))}
    blobs: dict[str, str] = {}
    for file in sorted((folder / BLOBS).iterdir()):
        sha256, _, kind = file.name.partition(".")
        blobs[file.name] = stored.get(sha256, "")
        if blobs[file.name]:
            continue
        if kind == "pjrt":
            return
        blobs[file.name] = blob_key(sha256)
        store.put(blobs[file.name], Entry({"entry": "blob"}, file.read_bytes()))
    order = [places[identity_of(record)] for record in records]
    store.put(key, KeptBuild(index, blobs, order, notes).to_entry())


def _records_of(index: bytes) -> list[Record]:
    """Return all records of an index, in its order."""
    opened = Index.open(index, INDEX_NAME)
    return [record for f in opened.functions() for record in opened.records(f.name)]
