"""A project's pyproject.toml, prepared for the hooks: what changes, with comments kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aotbuild.errors import ProjectError
from aotbuild.format.toml_text import read_toml
from aotbuild.record.project_tables import (
    HATCHLING_BACKENDS,
    PYPROJECT,
    Wanted,
    name_of,
    new_project,
    with_tables,
)

# What setuptools, uv_build and flit may be told for hatchling to build the same: nothing but where
# the package is, which hatchling finds.
_KNOWN_TABLES = {
    "setuptools.build_meta": ("setuptools", {"packages", "package-dir", "include-package-data"}),
    "uv_build": ("uv", {"module-name", "module-root"}),
    "flit_core.buildapi": ("flit", {"module"}),
}
_LEGACY = "setuptools.build_meta"
# What makes a project of setuptools of a folder without pyproject.toml.
_SETUP = "setup.py"
MANIFEST = "aot.yaml"


def manifest_named(text: str | None) -> str:
    """Return the path of the manifest that a pyproject.toml gives the hook, else `aot.yaml`."""
    try:
        build = read_toml(text or "").get("tool", {}).get("hatch", {}).get("build", {})
        for table in (build.get("targets", {}).get("wheel", {}), build):
            named = table.get("hooks", {}).get("aotbuild", {}).get("manifest")
            if isinstance(named, str) and named:
                return named
    except (ValueError, AttributeError):
        pass  # `prepare` says what is wrong
    return MANIFEST


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


def prepare(text: str | None, wanted: Wanted, *, switch: bool = False) -> Prepared:
    """Return a prepared pyproject.toml; of None, a new one.

    With `switch`, a project of another build backend gets hatchling's. ProjectError if the file
    cannot be read, or tells its backend what hatchling cannot do.
    """
    if text is None and _SETUP not in wanted.others:
        return Prepared(new_project(wanted))
    text = text or ""
    plain = _read(text)
    try:
        return _prepare(text, plain, wanted, switch=switch)
    except (AttributeError, TypeError) as err:
        problem = f"a value has another type than its specification says ({err})"
        remedy = "Mend it first: https://packaging.python.org/en/latest/specifications/"
        raise ProjectError(PYPROJECT, problem, remedy) from err


def _prepare(text: str, plain: dict[str, Any], wanted: Wanted, *, switch: bool) -> Prepared:
    backend = _backend(plain, wanted)
    if backend in HATCHLING_BACKENDS or not backend:
        return _prepared(text, wanted, plain)
    problem = _obstacle(plain, wanted, backend)
    if problem and switch:
        raise ProjectError(PYPROJECT, *problem)
    if problem or not switch:
        proposal = "" if problem else _prepared(text, wanted, plain).text
        told = "\n".join(problem or _other(backend))
        return Prepared(text, problem=told, proposal=proposal)
    return _prepared(text, wanted, plain)


def _prepared(text: str, wanted: Wanted, plain: dict[str, Any]) -> Prepared:
    return Prepared(with_tables(text, wanted), tuple(_notes(plain)))


def _read(text: str) -> dict[str, Any]:
    try:
        return read_toml(text)
    except ValueError as err:
        raise ProjectError(PYPROJECT, f"not TOML: {err}", "Mend it first.") from err


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
    return str(backend).partition(":")[0]  # as setuptools.build_meta:__legacy__


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


def _notes(plain: dict[str, Any]) -> list[str]:
    """Return what the change cannot settle."""
    project, tool = plain.get("project", {}), plain.get("tool", {})
    found = []
    jax = [text for text in project.get("dependencies", []) if name_of(text) in ("jax", "jaxlib")]
    if jax:
        found.append(
            f"{', '.join(jax)}: the hook adds jax and jaxlib in the versions that compile; remove "
            "it from dependencies, unless it limits which jax may compile"
        )
    if tool.get("uv", {}).get("package") is False:
        found.append("[tool.uv] package = false: uv does not build the project; remove the line")
    return found
