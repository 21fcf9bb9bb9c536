"""The toolchains that a manifest asks for: versions, and what their environments must hold."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from aotbuild.manifest import Manifest
from aotbuild.toolchains.project import BUILD_TABLE
from aotbuild.toolchains.toolchain import Toolchain

# The name that begins a requirement (PEP 508).
_NAME = re.compile(r"\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)")
OWN = "aotbuild"
_JAX = ("jax", "jaxlib")


@dataclass(frozen=True)
class Wanted:
    """One toolchain as the manifest asks for it.

    `python` is like `3.11`, None for the running one. `special` are the requirements of its targets
    beside jax, `common` are those of the project and of a worker.
    `title` names it in messages, `lock_name` is the file of its lock.
    """

    title: str
    jax: str
    python: str | None
    special: tuple[str, ...]
    common: tuple[str, ...]
    lock_name: str

    @property
    def requirements(self) -> tuple[str, ...]:
        """All requirements, sorted, each once."""
        return tuple(sorted({f"jax=={self.jax}", "jaxlib", *self.special, *self.common}))

    def is_met_by(self, running: Toolchain) -> bool:
        """Return whether the running environment is this toolchain and has its requirements."""
        if Version(self.jax) != Version(running.jax):
            return False
        if self.python and not running.python.startswith(f"{self.python}."):
            return False
        return all(map(_is_installed, self.special))


def wanted_toolchains(
    manifest: Manifest, project: Iterable[str], running: Toolchain | None
) -> tuple[Wanted, ...]:
    """Return the toolchains of a manifest, in its order.

    Without any it is that of the jax that the project pins, else of the running one. `project` are
    the dependencies of the project, as requirements. `running` may be None only where something
    names a jax.
    """
    # Workers import the aotbuild of the build.
    others = (text for text in project if _name(text) != OWN)
    common = (*worker_requirements(), *others)
    if not manifest.toolchains:
        pin = pinned_jax(project)
        if pin is None or (running and pin.is_of(running)):
            assert running is not None, "nothing names a jax, so the running one builds"
            jax, title = running.jax, f"{manifest.file}: jax {running.jax} (the running one)"
        else:
            jax, title = pin.version, f"pyproject.toml: {pin}"
        return (Wanted(title, jax, None, _for_targets(manifest, jax), common, ""),)
    return tuple(
        Wanted(
            title=f"{manifest.file}: toolchains.{number} (jax {request.jax})",
            jax=request.jax,
            python=request.python,
            special=_for_targets(manifest, request.jax),
            common=common,
            lock_name=lock_name(Path(manifest.file), request.jax, request.python),
        )
        for number, request in enumerate(manifest.toolchains)
    )


@dataclass(frozen=True)
class Pin:
    """An exact requirement of jax or jaxlib; both have the same versions."""

    name: str
    version: str

    def is_of(self, toolchain: Toolchain) -> bool:
        """Return whether a toolchain has it."""
        return Version(self.version) == Version(getattr(toolchain, self.name))

    def __str__(self) -> str:
        return f"{self.name}=={self.version}"


def pinned_jax(project: Iterable[str]) -> Pin | None:
    """Return what a project's dependencies pin exactly: jax, else jaxlib; None if neither."""
    pins: dict[str, Pin] = {}
    for text in project:
        with suppress(InvalidRequirement):  # whoever installs it says why
            found = Requirement(text)
            exact = [s.version for s in found.specifier if s.operator in ("==", "===")]
            applies = found.marker is None or found.marker.evaluate()
            if _name(text) in _JAX and applies and exact and not exact[0].endswith("*"):
                pins[_name(text)] = Pin(_name(text), exact[0])
    return next((pins[name] for name in _JAX if name in pins), None)


def jax_notes(shipped: Iterable[str]) -> tuple[str, ...]:
    """Return a note if dependencies bring jax to where a wheel of `runtime: jaxlib` runs.

    Nothing is known of the requirements of what is not installed here.
    """
    found = ", ".join(text for text in shipped if _brings_jax(text))
    note = (
        f"runtime: jaxlib, but the wheel requires jax, by its dependencies {found}: pin jaxlib "
        "alone there, which decides what compiles, and list what only the build needs under "
        f"dependencies of [{BUILD_TABLE}]"
    )
    return (note,) if found else ()


def _brings_jax(text: str) -> bool:
    waiting = [found for found in [Requirement(text)] if _applies(found)]
    for each in waiting:  # it grows
        if _name(each.name) == "jax":
            return True
        with suppress(metadata.PackageNotFoundError):
            needed = map(Requirement, metadata.requires(each.name) or [])
            waiting += [n for n in needed if _applies(n, *each.extras) and n not in waiting]
    return False


def _applies(found: Requirement, *extras: str) -> bool:
    marker = found.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras))


def _name(requirement: str) -> str:
    """Return the normalized name in a requirement; what follows is judged before uv gets it."""
    found = _NAME.match(requirement)
    return canonicalize_name(found[1]) if found else ""


def lock_name(manifest: Path, jax: str, python: str | None) -> str:
    """Return the name of a lock, as `pylock.aot-jax0_10_2-py3_11.toml`: PEP 751 wants two dots."""
    parts = [manifest.stem, f"jax{jax}", *([f"py{python}"] if python else [])]
    return f"pylock.{re.sub('[^A-Za-z0-9_-]', '_', '-'.join(parts))}.toml"


def worker_requirements() -> tuple[str, ...]:
    """Return what a worker imports beside jax and aotbuild: aotbuild's extra `worker`."""
    declared = map(Requirement, metadata.requires(OWN) or [])
    return tuple(
        f"{each.name}{each.specifier}"
        for each in declared
        if each.marker and each.marker.evaluate({"extra": "worker"}) and not each.marker.evaluate()
    )


def plugin_needs(manifest: Manifest) -> bool:
    """Return whether a manifest's targets need more than jax to compile for them."""
    return bool(_for_targets(manifest, "0"))


def _for_targets(manifest: Manifest, jax: str) -> tuple[str, ...]:
    found = (r for target in manifest.targets for r in target.description.packages(jax, target))
    return tuple(dict.fromkeys(found))


def _is_installed(text: str) -> bool:
    requirement = Requirement(text)
    if requirement.marker is not None and not requirement.marker.evaluate():
        return True
    try:
        version = metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        return False
    return requirement.specifier.contains(version, prereleases=True)
