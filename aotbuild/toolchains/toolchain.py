"""Toolchains and the build environment: versions, CPU, wheel platform. No jax is imported."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from aotbuild.errors import PlanError
from aotbuild.format.dist_info import installed_version
from aotbuild.platforms.base import machine
from aotbuild.platforms.building import descriptions


@dataclass(frozen=True)
class Recipe:
    """What uv makes an environment from: the text of its lock, and a Python, by path or version.

    `file` is the lock's file, if it is committed beside the manifest.
    """

    lock: str = field(repr=False)
    python: str
    file: Path | None = None


@dataclass(frozen=True)
class Toolchain:
    """The exact versions that trace, lower and compile.

    `plugins` are the distributions beside jaxlib that compile for other platforms, with their
    versions. `interpreter` runs them; None is the one that runs this. `recipe` is what uv makes the
    interpreter's environment from; `make_environments` does so.
    """

    jax: str
    jaxlib: str
    python: str
    plugins: tuple[tuple[str, str], ...] = ()
    interpreter: Path | None = field(default=None, compare=False)
    recipe: Recipe | None = field(default=None, compare=False)

    def __str__(self) -> str:
        plugins = "".join(f", {name} {version}" for name, version in self.plugins)
        return f"jax {self.jax}, jaxlib {self.jaxlib}{plugins}, Python {self.python}"


@dataclass(frozen=True)
class Environment:
    """Where units are compiled: a machine, and the toolchains on it, in the manifest's order.

    `isa` is the best level that its CPU satisfies, `system` is named as in `sys.platform`.
    """

    toolchains: tuple[Toolchain, ...]
    architecture: str
    isa: str | None
    wheel_platform: str
    aotbuild: str
    system: str = sys.platform


def probe() -> Environment:
    """Read the running environment; PlanError where jax or jaxlib is not installed."""
    return environment_of((required_toolchain(),), running_platforms())


def running_toolchain() -> Toolchain | None:
    """Return what is installed here; None without jax or jaxlib."""
    is_there = installed_version("jax") and installed_version("jaxlib")
    return required_toolchain() if is_there else None


def required_toolchain() -> Toolchain:
    """Return what is installed here; PlanError without jax or jaxlib."""
    jax, jaxlib = _version("jax"), _version("jaxlib")
    found = tuple((name, version) for name in plugins() if (version := installed_version(name)))
    return Toolchain(jax, jaxlib, platform.python_version(), found)


def plugins() -> tuple[str, ...]:
    """Return the distributions beside jaxlib that compile for platforms, or that those call."""
    return tuple(name for known in descriptions() for name in known.plugins)


def running_platforms() -> tuple[str, ...]:
    """Return the platform tags of the jaxlib that is installed here."""
    return platforms_of(metadata.distribution("jaxlib").read_text("WHEEL") or "")


def environment_of(toolchains: tuple[Toolchain, ...], platforms: Iterable[str]) -> Environment:
    """Return this machine with these toolchains; `platforms` are the tags of their jaxlibs.

    A wheel fits wherever one of its jaxlibs does, so it gets the tags of all, joined by dots as in
    the file names of wheels (PEP 425).
    """
    here = machine()
    return Environment(
        toolchains=toolchains,
        architecture=here.architecture,
        isa=here.isa,
        wheel_platform=".".join(sorted(set(platforms))),
        aotbuild=_version("aotbuild"),
    )


def platforms_of(wheel_file: str) -> tuple[str, ...]:
    """Return the platforms of the tags in a WHEEL file, as `manylinux_2_27_x86_64`, sorted."""
    tags = [line[4:].strip() for line in wheel_file.splitlines() if line.startswith("Tag:")]
    platforms = {tag.split("-")[2] for tag in tags if tag.count("-") == 2}
    if not platforms:
        msg = "jaxlib's WHEEL file has no platform tag; reinstall jaxlib from a wheel"
        raise PlanError(msg)
    return tuple(sorted(platforms))


def _version(distribution: str) -> str:
    version = installed_version(distribution)
    if version is None:
        msg = (
            f"{distribution} is not installed in the build environment; install aotbuild[build] "
            "and jax there, or build with `pip wheel`, which does it"
        )
        raise PlanError(msg)
    return version
