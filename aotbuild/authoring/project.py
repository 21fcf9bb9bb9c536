"""A project's pyproject.toml, prepared for the hooks: what changes, with comments kept."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aotbuild.errors import ProjectError

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

BACKEND = "hatch_aotbuild.backend"
HATCHLING = "hatchling"
_HATCHLING_BACKENDS = ("hatchling.build", BACKEND)
_REQUIRES = ("hatchling>=1.29", "aotbuild[build]")
# What setuptools, uv_build and flit may be told for hatchling to build the same: nothing but where
# the package is, which hatchling finds.
_KNOWN_TABLES = {
    "setuptools.build_meta": ("setuptools", {"packages", "package-dir", "include-package-data"}),
    "uv_build": ("uv", {"module-name", "module-root"}),
    "flit_core.buildapi": ("flit", {"module"}),
}
_FILE = "pyproject.toml"
_LEGACY = "setuptools.build_meta"
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
class Prepared:
    """The text of a prepared pyproject.toml, and what a person has to know of it.

    `problem` says why the text is left as it was, if it is; `proposal` is then what it would be
    with another build backend, if that can be said.
    """

    text: str
    notes: tuple[str, ...] = ()
    problem: str = ""
    proposal: str = ""


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


def prepare(text: str | None, wanted: Wanted, *, switch: bool = False) -> Prepared:
    """Return a prepared pyproject.toml; of None, a new one.

    With `switch`, a project of another build backend gets hatchling's. ProjectError if the file
    cannot be read, or tells its backend what hatchling cannot do.
    """
    if text is None:
        return Prepared(_with_tables(_MINIMAL.format(name=wanted.project), wanted))
    plain = _read(text)
    backend = _backend(plain, wanted)
    if backend in _HATCHLING_BACKENDS or not backend:
        return _prepared(text, wanted, plain)
    problem = _obstacle(plain, wanted, backend)
    if problem and switch:
        raise ProjectError(_FILE, *problem)
    if problem or not switch:
        proposal = "" if problem else _prepared(text, wanted, plain).text
        told = "\n".join(problem or _other(backend))
        return Prepared(text, problem=told, proposal=proposal)
    return _prepared(text, wanted, plain)


def _prepared(text: str, wanted: Wanted, plain: dict[str, Any]) -> Prepared:
    return Prepared(_with_tables(text, wanted), tuple(_notes(plain)))


def _read(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as err:
        raise ProjectError(_FILE, f"not TOML: {err}", "Mend it first.") from err


# --- other build backends -------------------------------------------------------------------------


def _backend(plain: dict[str, Any], wanted: Wanted) -> str:
    """Return the build backend; empty where the file leaves it open and nothing else decides."""
    system = plain.get("build-system", {})
    backend = system.get("build-backend", "")
    if not backend and (wanted.others or "setuptools" in plain.get("tool", {})):
        return _LEGACY
    requires = " ".join(map(str, system.get("requires", [])))
    if not backend and "setuptools" in requires:
        return _LEGACY
    return str(backend)


def _other(backend: str) -> tuple[str, str]:
    remedy = (
        "`aotbuild init … --backend hatchling` makes these changes. Without them, wheels have no "
        "executables; `aotbuild build` compiles into a folder all the same."
    )
    return f"it is built by {backend}, and the hook works with hatchling", remedy


def _obstacle(plain: dict[str, Any], wanted: Wanted, backend: str) -> tuple[str, str] | None:
    """Return why a project cannot be given to hatchling as it is, and what to do."""
    reasons = [*_reasons(plain, wanted, backend)]
    if not reasons:
        return None
    listed = "".join(f"\n  {reason}" for reason in reasons)
    remedy = (
        "Move the project to hatchling yourself (https://hatch.pypa.io/latest/config/build/), and "
        "run this again. `aotbuild build` compiles into a folder all the same."
    )
    problem = f"it is built by {backend}, and hatchling cannot take over what it is told"
    return f"{problem}:{listed}", remedy


def _reasons(plain: dict[str, Any], wanted: Wanted, backend: str) -> list[str]:
    if "backend-path" in plain.get("build-system", {}):
        return ["build-system.backend-path: the backend is a part of the project"]
    if backend not in _KNOWN_TABLES:
        return [f"{backend} is not known to build the same as hatchling"]
    table, known = _KNOWN_TABLES[backend]
    settings = plain.get("tool", {}).get(table, {})
    settings = settings.get("build-backend", {}) if table == "uv" else settings
    where = "tool.uv.build-backend" if table == "uv" else f"tool.{table}"
    found = [f"[{where}] {key}" for key in settings if key not in known]
    found += _packages_left_out(settings.get("packages", []), wanted)
    found += [f"{name} beside pyproject.toml" for name in wanted.others]
    project = plain.get("project", {})
    if "name" not in project:
        found.append("[project] has no name: what the package is stands elsewhere")
    elif "version" not in project:
        found.append("[project] has no version: the backend finds it")
    dynamic = [name for name in project.get("dynamic", []) if name != "version"]
    return [*found, *(f"[project] dynamic: {name}" for name in dynamic)]


def _packages_left_out(packages: Any, wanted: Wanted) -> list[str]:
    """Return what setuptools is told of packages that hatchling would not build."""
    where = "[tool.setuptools] packages"
    if isinstance(packages, dict):
        find = packages.get("find", {})
        found = [f"{where}: {key}" for key in packages if key != "find"]
        found += [f"{where}.find: {key}" for key in find if key not in ("where", "include")]
        several = len(find.get("include", [])) > 1
        return [*found, *([f"{where}.find: include, of several packages"] if several else [])]
    top = wanted.package.partition(".")[0]
    return [f"{where}: {name}" for name in packages if str(name).partition(".")[0] != top]


# --- the tables -----------------------------------------------------------------------------------


@dataclass
class _Draft:
    """A document that is edited in place, and tables that are added behind it, as text."""

    document: TOMLDocument
    added: dict[tuple[str, ...], dict[str, str]] = field(default_factory=dict)

    def table(self, *names: str) -> Any:
        """Return a table of the document; an empty dict if it is not there."""
        found: Any = self.document
        for name in names:
            found = found.get(name, {})
        return found

    def set(self, names: tuple[str, ...], key: str, value: Any) -> None:
        """Set a key in a table of the document, or in one that is added."""
        import tomlkit

        table = self.table(*names)
        if table:
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


def _with_tables(text: str, wanted: Wanted) -> str:
    """Return a pyproject.toml with everything that the hooks need; comments and order stay."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    has_windows_lines = "\r\n" in text
    text = text.replace("\r\n", "\n")
    try:
        document = tomlkit.parse(text)
        if "build-system" not in document:
            document = tomlkit.parse(f"{_SYSTEM}\n{text}" if text.strip() else _SYSTEM)
        draft = _Draft(document)
        for change in _CHANGES:
            change(draft, wanted)
        done = draft.text()
        tomllib.loads(done)
    except (TOMLKitError, ValueError, TypeError, AttributeError, KeyError) as err:
        problem = f"its tables cannot be extended, as dotted keys or inline tables ({err})"
        lines = _with_tables(_MINIMAL.format(name=wanted.project), wanted)
        raise ProjectError(_FILE, problem, f"Write these tables yourself:\n\n{lines}") from err
    return done.replace("\n", "\r\n") if has_windows_lines else done


def _system(draft: _Draft, _: Wanted) -> None:
    """Set the build backend, and what it requires; settings of another backend go."""
    system = draft.table("build-system")
    backend = system.get("build-backend")
    if backend in _HATCHLING_BACKENDS:
        present = [_name(str(each)) for each in system.setdefault("requires", [])]
        for each in _REQUIRES:
            if _name(each) not in present:
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
        if _name(str(each)) == "aotbuild" and "[" not in str(each):
            system["requires"][place] = str(each).replace("aotbuild", "aotbuild[build]", 1)


def _dependencies(draft: _Draft, wanted: Wanted) -> None:
    """Move the dependencies into the table of the metadata hook, which adds to them."""
    project = draft.table("project")
    if "name" not in project:
        draft.set(("project",), "name", wanted.project)
        draft.set(("project",), "version", "0.1.0")
    own = project.pop("dependencies", None)
    dynamic = project.get("dynamic", [])
    if not dynamic:
        draft.set(("project",), "dynamic", ["dependencies"])
    elif "dependencies" not in dynamic:
        dynamic.append("dependencies")
    hook = draft.table(*_METADATA)
    listed = hook.get("dependencies")
    if not listed:
        if own is not None or listed is None:
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
    """Name what uv looks at before it takes an earlier build."""
    import tomlkit

    found = draft.table("tool", "uv").get("cache-keys", tomlkit.array())
    named = [each.get("file") for each in found if isinstance(each, dict)]
    missing = [
        file
        for file in ("pyproject.toml", wanted.manifest, f"{wanted.folder}/**/*.py")
        if file not in named
    ]
    for file in missing:
        found.append(tomlkit.value(f'{{ file = "{file}" }}'))
    if missing and not named:
        draft.set(("tool", "uv"), "cache-keys", found)


_CHANGES: tuple[Callable[[_Draft, Wanted], None], ...] = (
    _system, _dependencies, _packages, _hook, _cache_keys,
)  # fmt: skip


def _notes(plain: dict[str, Any]) -> list[str]:
    """Return what the change cannot settle."""
    project, tool = plain.get("project", {}), plain.get("tool", {})
    found = []
    jax = [text for text in project.get("dependencies", []) if _name(text) in ("jax", "jaxlib")]
    if jax:
        found.append(
            f"{', '.join(jax)}: the hook adds jax and jaxlib in the versions that compile; remove "
            "it from dependencies, unless it limits which jax may compile"
        )
    if tool.get("uv", {}).get("package") is False:
        found.append("[tool.uv] package = false: uv does not build the project; remove the line")
    return found


def _table(document: Any, *names: str) -> Any:
    """Return a table of a document, made if it is not there; the ones around it have no header."""
    import tomlkit

    table = document
    for place, name in enumerate(names):
        if name not in table:
            if document.body and not tomlkit.dumps(document).endswith("\n\n"):
                document.add(tomlkit.nl())
            table.add(name, tomlkit.table(is_super_table=place < len(names) - 1))
        table = table[name]
    return table


def _name(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement.strip())
    return re.sub(r"[-_.]+", "-", found[0]).lower() if found else ""
