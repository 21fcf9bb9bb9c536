"""The key of a whole build: everything that decides what it makes, read before anything is traced.

Two builds with equal keys make the same package, so the second takes what the first one kept
(`build.kept`). In the key are

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
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from json import JSONDecodeError, loads
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from aotbuild.build.jobs import encodings, is_forwarded
from aotbuild.build.plan import Plan
from aotbuild.build.project_files import LIBRARIES, TooLarge, project_files
from aotbuild.build.sources import SourceTree
from aotbuild.format.canonical import canonical_json, sha256_hex
from aotbuild.format.sources import SourceDigests, file_digest
from aotbuild.platforms.base import machine
from aotbuild.store.keys import build_key

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
        """Return the store's key of the build with these files; None if it has none."""
        return key_of_build(self._plan, self._sources, files, os.environ) if files else None

    def edited(self, files: SourceDigests) -> list[str]:
        """Return which files that were compiled, or the manifest, changed since the build began.

        What the user's code writes while it is imported is no edit.
        """
        known = files.files if self.files is None else self.files
        return [name for name in files.changed(self._sources.root) if name in known]

    def edited_modules(self) -> list[str]:
        """Return which modules changed since the build began, imported or not."""
        before, now = self.files or {}, self.files_now() or {}
        return [name for name in before if name.endswith(".py") and before[name] != now.get(name)]


def key_of_build(
    plan: Plan, sources: SourceTree, files: Mapping[str, str], environment: Mapping[str, str]
) -> str | None:
    """Return the store's key of what a build makes; None where no key stands for all its inputs.

    `files` are the project's, as `project_files` returns them.
    """
    toolchains = plan.environment.toolchains
    manifest = plan.manifest
    try:
        folders = [installed(_import_path(each.interpreter), sources.root) for each in toolchains]
        own = {name: _tree(place) for name in _OWN for place in _folders_of(name)}
    except (TooLarge, OSError):
        return None
    facts: dict[str, Any] = {
        "aotbuild": own,
        "files": [list(pair) for pair in sorted(files.items())],
        "package": [sources.package, sources.below(sources.import_root)],
        "manifest": [manifest.content, manifest.digest],
        "units": [[str(unit), unit.hardware.to_json()] for unit in plan.units],
        "toolchains": [[str(each), found] for each, found in zip(toolchains, folders, strict=True)],
        "machine": machine().to_json(),
        "python": [platform.python_implementation(), sys.version, sys.platform],
        "encodings": list(encodings()),
        "variables": {
            ascii(name): ascii(value) for name, value in environment.items() if _decides(name)
        },
    }
    return build_key(facts)


def installed(path: Iterable[str], root: Path) -> list[Any]:
    """Return what can be imported from a path of imports: distributions, and other folders' files.

    Distributions have the digest of their RECORD; one that was installed as editable has that of
    its folder's files instead, unless that is in the project `root`, whose files are known.
    """
    found: list[Any] = []
    stdlib = {os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")}
    for entry in dict.fromkeys(path):
        folder = Path(entry)
        real = os.path.realpath(folder)
        if not folder.is_dir() or real in stdlib or Path(real).name == "lib-dynload":
            continue
        if folder.name in LIBRARIES:
            found += [_distribution(each, root) for each in _metadata(folder)]
            found += [[each.name, file_digest(each)] for each in sorted(folder.glob("*.pth"))]
        elif not _is_of_pip(folder) and not _is_below(folder, root) and not _is_own(folder):
            found.append(_tree(folder))
    return found


def _metadata(folder: Path) -> list[Path]:
    return sorted(each for each in folder.iterdir() if each.name.endswith(_METADATA))


def _distribution(place: Path, root: Path) -> list[Any]:
    """Return a distribution's name with its version, and the digest of its files."""
    editable = _editable_folder(place)
    name = place.name.partition("-")[0]
    if editable and name not in _OWN and not _is_below(editable, root):
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


def _is_below(folder: Path, root: Path) -> bool:
    return Path(os.path.realpath(folder)).is_relative_to(os.path.realpath(root))


def _is_own(folder: Path) -> bool:
    """Return whether a folder has aotbuild itself, whose files are in the key anyway."""
    return any(folder == place.parent for name in _OWN for place in _folders_of(name))


def _is_of_pip(folder: Path) -> bool:
    """Return whether a folder has the `sitecustomize` that pip writes for an isolated build."""
    return folder.name == "site" and (folder.parent / "overlay").is_dir()


def _decides(name: str) -> bool:
    """Return whether the code of a build may see a variable, and its value may matter."""
    is_indifferent = name in _INDIFFERENT or name.startswith(_INDIFFERENT_PREFIXES)
    return is_forwarded(name) and not is_indifferent
