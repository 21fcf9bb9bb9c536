"""The tables of pyproject.toml that the hooks need, added; comments and order stay."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from aotbuild.errors import ProjectError
from aotbuild.format.toml_text import read_toml
from aotbuild.record.trees_file import TREES_FILE

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

PYPROJECT = "pyproject.toml"
BACKEND = "hatch_aotbuild.backend"
HATCHLING_BACKENDS = ("hatchling.build", BACKEND)
_REQUIRES = ("hatchling>=1.29", "aotbuild[build]")
_SYSTEM = """\
[build-system]
requires = ["hatchling>=1.29", "aotbuild[build]"]
build-backend = "hatch_aotbuild.backend"
"""
_MINIMAL = """\
[project]
name = "{name}"
version = "0.1.0"
dynamic = ["dependencies"]

[tool.hatch.metadata.hooks.aotbuild]
# What your package requires; the hook adds jax, in the version that compiles.
dependencies = []
"""


@dataclass(frozen=True)
class Wanted:
    """What a pyproject.toml is prepared for: a package, below a folder, and its manifest.

    `folder` is the folder of the package relative to the project, as `src/mypkg`. `others` are the
    files of other build backends that exist beside it, as `setup.py`.
    """

    package: str
    folder: str
    manifest: str = "aot.yaml"
    others: tuple[str, ...] = ()
    project: str = ""


def new_project(wanted: Wanted) -> str:
    """Return the pyproject.toml of a project that has none."""
    return with_tables(_MINIMAL.format(name=wanted.project), wanted)


_NONE: dict[str, Any] = {}


@dataclass
class _Draft:
    """A document that is edited in place, and tables that are added behind it, as text."""

    document: TOMLDocument
    added: dict[tuple[str, ...], dict[str, str]] = field(default_factory=dict)

    def table(self, *names: str) -> Any:
        """Return a table of the document; `_NONE`, an empty dict, if it is not there."""
        found: Any = self.document
        for name in names:
            found = found.get(name, _NONE)
        return found

    def set(self, names: tuple[str, ...], key: str, value: Any) -> None:
        """Set a key in a table of the document, or in one that is added."""
        import tomlkit

        table = self.table(*names)
        if table is not _NONE:
            table[key] = value
        else:
            self.added.setdefault(names, {})[key] = tomlkit.item(value).as_string().strip()

    def text(self) -> str:
        """Return the whole file."""
        import tomlkit

        parts = [tomlkit.dumps(self.document).rstrip()]
        for names, keys in self.added.items():
            lines = (f"{key} = {value}" if key else value for key, value in keys.items())
            parts.append("\n".join([f"[{'.'.join(names)}]", *lines]))
        return "\n\n".join(filter(None, parts)) + "\n"


_METADATA = ("tool", "hatch", "metadata", "hooks", "aotbuild")
_WHEEL = ("tool", "hatch", "build", "targets", "wheel")
# Keys by which hatchling is told what is in a wheel.
_CHOICES = ("packages", "include", "only-include", "force-include", "sources", "bypass-selection")


def with_tables(text: str, wanted: Wanted) -> str:
    """Return a pyproject.toml with everything that the hooks need; comments and order stay."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    has_windows_lines = "\r\n" in text
    text = text.replace("\r\n", "\n")
    try:
        document = tomlkit.parse(text)
        if tomlkit.dumps(document) != text:  # as for tables of one table, indented and apart
            msg = "its editor would change other lines"
            raise ValueError(msg)
        if "build-system" not in document:
            document = tomlkit.parse(f"{_SYSTEM}\n{text}" if text.strip() else _SYSTEM)
        draft = _Draft(document)
        for change in _CHANGES:
            change(draft, wanted)
        done = draft.text()
        read_toml(done)
    except (TOMLKitError, ValueError, TypeError, AttributeError, KeyError) as err:
        problem = f"its tables cannot be extended, as dotted keys or inline tables ({err})"
        lines = new_project(wanted)
        raise ProjectError(PYPROJECT, problem, f"Write these tables yourself:\n\n{lines}") from err
    return done.replace("\n", "\r\n") if has_windows_lines else done


def _system(draft: _Draft, _: Wanted) -> None:
    """Set the build backend, and what it requires; settings of another backend go."""
    system = draft.table("build-system")
    backend = system.get("build-backend")
    if backend in HATCHLING_BACKENDS:
        present = [name_of(str(each)) for each in system.setdefault("requires", [])]
        for each in _REQUIRES:
            if name_of(each) not in present:
                system["requires"].append(each)
        _add_extra(system)
    else:
        system["requires"] = [*_REQUIRES]
        for names in (("tool", "setuptools"), ("tool", "uv", "build-backend"), ("tool", "flit")):
            draft.table(*names[:-1]).pop(names[-1], None)
    if backend != BACKEND:
        system["build-backend"] = BACKEND


def _add_extra(system: Any) -> None:
    """Make `aotbuild` of the requirements `aotbuild[build]`."""
    for place, each in enumerate(system["requires"]):
        if name_of(str(each)) == "aotbuild" and "[" not in str(each):
            system["requires"][place] = str(each).replace("aotbuild", "aotbuild[build]", 1)


def _dependencies(draft: _Draft, wanted: Wanted) -> None:
    """Move the dependencies into the table of the metadata hook, which adds to them."""
    project = draft.table("project")
    if "name" not in project:
        draft.set(("project",), "name", wanted.project)
        draft.set(("project",), "version", "0.1.0")
    own = project.pop("dependencies", None) if project else None
    dynamic = project.get("dynamic", [])
    if not dynamic:
        draft.set(("project",), "dynamic", ["dependencies"])
    elif "dependencies" not in dynamic:
        dynamic.append("dependencies")
    hook = draft.table(*_METADATA)
    listed = hook.get("dependencies")
    if not listed:
        if own is not None or hook is _NONE:
            draft.set(_METADATA, "dependencies", [] if own is None else own)
        return
    for each in own or ():
        if each not in listed:
            listed.append(each)


def _packages(draft: _Draft, wanted: Wanted) -> None:
    """Name the package, where hatchling would not find it by the project's name."""
    name = re.sub(r"[-_.]+", "_", str(draft.table("project").get("name", wanted.project))).lower()
    told = (draft.table("tool", "hatch", "build"), draft.table(*_WHEEL))
    is_told = any(choice in each for each in told for choice in _CHOICES)
    if not is_told and wanted.folder.lower() not in (name, f"src/{name}"):
        draft.set(_WHEEL, "packages", [wanted.folder])


def _hook(draft: _Draft, wanted: Wanted) -> None:
    """Add the table of the build hook, unless one is there."""
    tables = (draft.table("tool", "hatch", "build"), draft.table(*_WHEEL))
    if not any("aotbuild" in each.get("hooks", {}) for each in tables):
        draft.set((*_WHEEL, "hooks", "aotbuild"), "manifest", wanted.manifest)


def _cache_keys(draft: _Draft, wanted: Wanted) -> None:
    """Name what uv looks at before it takes an earlier build; a file may not exist yet."""
    import tomlkit

    found = draft.table("tool", "uv").get("cache-keys", tomlkit.array())
    named = [each.get("file") for each in found if isinstance(each, dict)]
    trees = PurePosixPath(wanted.manifest).with_name(TREES_FILE).as_posix()
    missing = [
        file
        for file in ("pyproject.toml", wanted.manifest, trees, f"{wanted.folder}/**/*.py")
        if file not in named
    ]
    for file in missing:
        found.append(tomlkit.value(f'{{ file = "{file}" }}'))
    if missing and not named:
        draft.set(("tool", "uv"), "cache-keys", found)


_CHANGES: tuple[Callable[[_Draft, Wanted], None], ...] = (
    _system, _dependencies, _packages, _hook, _cache_keys,
)  # fmt: skip


def name_of(requirement: str) -> str:
    """Return the name of what a requirement asks for, normalized."""
    found = re.match(r"[A-Za-z0-9._-]+", requirement.strip())
    return re.sub(r"[-_.]+", "-", found[0]).lower() if found else ""
