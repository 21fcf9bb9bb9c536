"""A project's pyproject.toml, prepared for the hooks; comments and order stay."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aotbuild.errors import ProjectError
from aotbuild.format.toml_text import read_toml

PYPROJECT = "pyproject.toml"
MANIFEST = "aot.yaml"
BACKEND = "hatch_aotbuild.backend"
_BACKENDS = ("hatchling.build", BACKEND)
_REQUIRES = ("hatchling>=1.29", "aotbuild[build]")
_NEW = """\
[build-system]
requires = ["hatchling>=1.29", "aotbuild[build]"]
build-backend = "hatch_aotbuild.backend"

[project]
name = "{name}"
version = "0.1.0"
dynamic = ["dependencies"]

[tool.hatch.metadata.hooks.aotbuild]
# What your package requires; the hook adds jax, in the version that compiles.
dependencies = []
"""
_METADATA = ("tool", "hatch", "metadata", "hooks", "aotbuild")
_WHEEL = ("tool", "hatch", "build", "targets", "wheel")
# Keys by which hatchling is told what is in a wheel.
_CHOICES = ("packages", "include", "only-include", "force-include", "sources")


@dataclass(frozen=True)
class Package:
    """An import package, the folder that it is imported from, and its manifest.

    Folder and manifest are relative to the project.
    """

    name: str
    root: Path
    manifest: str = MANIFEST

    @property
    def folder(self) -> str:
        """The folder of its top package, as `src/mypkg`."""
        return (self.root / self.name.partition(".")[0]).as_posix()


@dataclass(frozen=True)
class Prepared:
    """The text of a prepared pyproject.toml, and notes on what a person has to do.

    `is_hatchling` is False where another backend builds the project: the text is left as it was.
    """

    text: str
    notes: tuple[str, ...] = ()
    is_hatchling: bool = True


def manifest_of(text: str | None) -> str:
    """Return the path of the manifest that a pyproject.toml gives the hook, else `aot.yaml`."""
    try:
        hooks = _table(read_toml(text or ""), *_WHEEL, "hooks", "aotbuild")
    except ValueError:  # `prepare` says what is wrong
        return MANIFEST
    named = hooks.get("manifest")
    return named if isinstance(named, str) and named else MANIFEST


def prepare(text: str | None, package: Package, *, has_setup_py: bool = False) -> Prepared:
    """Return a prepared pyproject.toml; of None, a new one. ProjectError if it cannot be read."""
    name = re.sub(r"_+", "-", package.name.partition(".")[0])
    new = _with_tables(_NEW.format(name=name), package)
    if text is None and not has_setup_py:
        return Prepared(new)
    try:
        found = read_toml(text or "")
    except ValueError as err:
        raise ProjectError(PYPROJECT, f"not TOML: {err}", "Correct it first.") from err
    is_setuptools = has_setup_py or "setuptools" in _table(found, "tool")
    default = "setuptools" if is_setuptools else BACKEND
    backend = str(_table(found, "build-system").get("build-backend", default))
    if backend not in _BACKENDS:
        note = (
            f"{PYPROJECT} is left as it is: {backend} builds the project, and the hook works with "
            f"hatchling. To have executables in its wheels, write these tables:\n\n{new}\n"
            "Without them, `aotbuild build` compiles into a folder all the same."
        )
        return Prepared(text or "", (note,), is_hatchling=False)
    return Prepared(_with_tables(text or "", package), tuple(_notes(found)))


def _notes(found: dict[str, Any]) -> list[str]:
    """Return what the change cannot settle."""
    listed = _table(found, "project").get("dependencies", [])
    own = [text for text in listed if name_of(str(text)) in ("jax", "jaxlib")]
    if not own:
        return []
    note = (
        f"{', '.join(own)}: the hook adds jax and jaxlib in the versions that compile; remove it "
        "from dependencies, unless it limits which jax may compile"
    )
    return [note]


def _with_tables(text: str, package: Package) -> str:
    """Return a pyproject.toml of hatchling with everything that the hooks need."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        document = tomlkit.parse(text)
        if tomlkit.dumps(document) != text:  # as for tables that are indented and apart
            msg = "the editor would change other lines"
            raise ValueError(msg)
        _set_system(document)
        _set_dependencies(document)
        _set_wheel(document, package)
        _set_cache_keys(document, package)
        done = tomlkit.dumps(document)
        read_toml(done)
    except (TOMLKitError, ValueError, TypeError, AttributeError, KeyError) as err:
        problem = f"its tables cannot be extended ({err})"
        remedy = f"Write these tables yourself:\n\n{_NEW.format(name=package.name)}"
        raise ProjectError(PYPROJECT, problem, remedy) from err
    return done


def _table(document: Any, *names: str) -> Any:
    """Return a table; an empty dict if it is not there."""
    for name in names:
        document = document.get(name, {}) if isinstance(document, dict) else {}
    return document if isinstance(document, dict) else {}


def _made(document: Any, *names: str) -> Any:
    """Return a table, made if it is not there."""
    import tomlkit

    for place, name in enumerate(names):
        if name not in document:
            document[name] = tomlkit.table(is_super_table=place < len(names) - 1)
        document = document[name]
    return document


def _set_system(document: Any) -> None:
    system = _made(document, "build-system")
    requires = system.setdefault("requires", [])
    present = [name_of(str(each)) for each in requires]
    for each in _REQUIRES:
        if name_of(each) not in present:
            requires.append(each)
    for place, each in enumerate(requires):
        if name_of(str(each)) == "aotbuild" and "[" not in str(each):
            requires[place] = str(each).replace("aotbuild", "aotbuild[build]", 1)
    system["build-backend"] = BACKEND


def _set_dependencies(document: Any) -> None:
    """Move the dependencies into the table of the metadata hook, which adds to them."""
    project = _made(document, "project")
    own = project.pop("dependencies", None)
    dynamic = project.setdefault("dynamic", [])
    if "dependencies" not in dynamic:
        dynamic.append("dependencies")
    hook = _made(document, *_METADATA)
    if "dependencies" not in hook:
        hook["dependencies"] = [] if own is None else own
    else:
        hook["dependencies"].extend(each for each in own or () if each not in hook["dependencies"])


def _set_wheel(document: Any, package: Package) -> None:
    """Add the table of the build hook, and name a package that hatchling would not find."""
    name = re.sub(r"[-_.]+", "_", str(_table(document, "project").get("name", ""))).lower()
    told = (_table(document, "tool", "hatch", "build"), _table(document, *_WHEEL))
    is_told = any(choice in each for each in told for choice in _CHOICES)
    if not is_told and package.folder.lower() not in (name, f"src/{name}"):
        _made(document, *_WHEEL)["packages"] = [package.folder]
    if not any("aotbuild" in each.get("hooks", {}) for each in told):
        _made(document, *_WHEEL, "hooks", "aotbuild")["manifest"] = package.manifest


def _set_cache_keys(document: Any, package: Package) -> None:
    """Name what uv looks at before it takes an earlier build."""
    import tomlkit

    keys = _table(document, "tool", "uv").get("cache-keys", tomlkit.array())
    named = [each.get("file") for each in keys if isinstance(each, dict)]
    for file in (PYPROJECT, package.manifest, f"{package.folder}/**/*.py"):
        if file not in named:
            keys.append(tomlkit.value(f'{{ file = "{file}" }}'))
    _made(document, "tool", "uv")["cache-keys"] = keys


def name_of(requirement: str) -> str:
    """Return the name of what a requirement asks for, normalized."""
    found = re.match(r"[A-Za-z0-9._-]+", requirement.strip())
    return re.sub(r"[-_.]+", "-", found[0]).lower() if found else ""
