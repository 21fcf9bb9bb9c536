"""Locks in the standard form (PEP 751): read one, and compare it with requirements."""

from __future__ import annotations

import platform
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.requirements import Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from aotbuild.errors import PlanError
from aotbuild.toolchains.toolchain import plugins


@dataclass(frozen=True)
class Lock:
    """A lock's text, and its distributions with their exact versions, by normalized name.

    A distribution in a local folder has the version "": a lock does not name it.
    """

    text: str
    versions: tuple[tuple[str, str], ...]
    jaxlib_platforms: tuple[str, ...]

    @property
    def jaxlib(self) -> str:
        """The version of jaxlib."""
        return dict(self.versions)["jaxlib"]

    @property
    def plugins(self) -> tuple[tuple[str, str], ...]:
        """The plugins among its distributions, in the order of `plugins()`."""
        versions = dict(self.versions)
        return tuple((name, versions[name]) for name in plugins() if name in versions)


def read_lock(text: str, place: str, python: str) -> Lock:
    """Read the text of a lock for a Python (`3.11`); PlanError says what is wrong with it.

    uv compares the files that it names with their digests when it installs them.
    """
    try:
        every = tomllib.loads(text)["packages"]
        for package in every:
            list(_places(package))  # raises where they are malformed; `local_files` relies on it
        packages = [p for p in every if _applies(p, python)]
        versions = {str(canonicalize_name(p["name"])): str(p.get("version", "")) for p in packages}
        for name in ("jax", "jaxlib"):
            Version(versions[name])
        jaxlib = next(p for p in packages if p["name"] == "jaxlib")
        platforms = tuple(sorted(set(_platforms(jaxlib, python))))
    except (ValueError, KeyError, TypeError, AttributeError, StopIteration) as err:
        msg = f"{place}: not a lock of a toolchain ({type(err).__name__}: {err}); run aotbuild lock"
        raise PlanError(msg) from err
    if not platforms:
        machine = f"Python {python} on {platform.system()} {platform.machine()}"
        msg = f"{place}: has no wheel of jaxlib for {machine}; run aotbuild lock here"
        raise PlanError(msg)
    return Lock(text, tuple(sorted(versions.items())), platforms)


def is_lock(text: str) -> bool:
    """Return whether a text is a lock, so that uv can start from it."""
    try:
        return "lock-version" in tomllib.loads(text)
    except ValueError:
        return False


def unmet(lock: Lock, requirements: Iterable[str], python: str) -> Iterator[str]:
    """Yield what a lock lacks of the requirements, as `expected …, found …`."""
    versions = dict(lock.versions)
    for requirement in map(Requirement, requirements):
        marker = requirement.marker
        if marker is not None and not marker.evaluate(_markers(python)):
            continue
        found = versions.get(str(canonicalize_name(requirement.name)))
        fits = found == "" or requirement.specifier.contains(found or "", prereleases=True)
        if found is None or not fits:
            yield f"expected {requirement}, found {found or 'nothing of that name'}"


def local_files(text: str) -> tuple[str, ...]:
    """Return the local files that a lock names: other machines cannot install them."""
    packages = tomllib.loads(text).get("packages", [])
    found = (place for package in packages for place in _places(package))
    return tuple(dict.fromkeys(p for p in found if "://" not in p or p.startswith("file:")))


def _applies(package: dict[str, Any], python: str) -> bool:
    from packaging.markers import Marker

    marker = package.get("marker")
    return marker is None or Marker(marker).evaluate(_markers(python))


def _markers(python: str) -> dict[str, str]:
    return {"python_version": python, "python_full_version": f"{python}.0"}


def _platforms(jaxlib: dict[str, Any], python: str) -> Iterator[str]:
    """Yield the platform tags of jaxlib's wheels for a Python on this machine's architecture."""
    wanted = {f"cp{python.replace('.', '')}", "py3"}
    for place in _places(jaxlib):
        name = PurePosixPath(unquote(urlsplit(place).path)).name
        try:
            tags = parse_wheel_filename(name)[3]
        except InvalidWheelFilename:
            continue
        for tag in tags:
            if tag.interpreter in wanted and tag.platform.endswith(platform.machine()):
                yield tag.platform


def _places(package: dict[str, Any]) -> Iterator[str]:
    """Yield the addresses or paths of a package's files."""
    entries = [*package.get("wheels", ()), package.get("sdist"), package.get("archive")]
    for entry in (*entries, package.get("directory")):
        if entry:
            yield str(entry.get("url") or entry.get("path") or "")
