"""What this build environment is: versions, CPU, wheel platform. Read without importing jax."""

from __future__ import annotations

import platform
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from aotbuild.errors import PlanError
from aotbuild.spec import cpuinfo
from aotbuild.spec.isa import best_level

# The distributions beside jaxlib that compile for other platforms, or that those call.
PLUGINS = ("jax-cuda13-plugin", "jax-cuda13-pjrt", "nvidia-cuda-nvcc", "nvidia-nvvm", "libtpu")


@dataclass(frozen=True)
class Toolchain:
    """The exact versions that trace, lower and compile.

    `plugins` are the distributions beside jaxlib that compile for other platforms, with their
    versions. `interpreter` runs them; None is the one that runs this.
    """

    jax: str
    jaxlib: str
    python: str
    plugins: tuple[tuple[str, str], ...] = ()
    interpreter: Path | None = field(default=None, compare=False)

    def __str__(self) -> str:
        plugins = "".join(f", {name} {version}" for name, version in self.plugins)
        return f"jax {self.jax}, jaxlib {self.jaxlib}{plugins}, Python {self.python}"


@dataclass(frozen=True)
class Environment:
    """A place where units are compiled: a machine, and the toolchains on it, in their order.

    `isa` is the best level that its CPU satisfies.
    """

    toolchains: tuple[Toolchain, ...]
    architecture: str
    isa: str | None
    wheel_platform: str
    aotbuild: str


def probe() -> Environment:
    """Read the running environment; PlanError where jax or jaxlib is not installed."""
    architecture = cpuinfo.architecture()
    plugins = tuple((name, found) for name in PLUGINS if (found := _installed(name)))
    running = Toolchain(_version("jax"), _version("jaxlib"), platform.python_version(), plugins)
    return Environment(
        toolchains=(running,),
        architecture=architecture,
        isa=best_level(architecture, cpuinfo.features()),
        wheel_platform=wheel_platform(metadata.distribution("jaxlib").read_text("WHEEL") or ""),
        aotbuild=_version("aotbuild"),
    )


def wheel_platform(wheel_file: str) -> str:
    """Return the platform part of the tags in a WHEEL file, as `manylinux_2_27_x86_64`.

    Several platforms are joined by dots, as in the file names of wheels (PEP 425).
    """
    tags = [line[4:].strip() for line in wheel_file.splitlines() if line.startswith("Tag:")]
    platforms = {tag.split("-")[2] for tag in tags if tag.count("-") == 2}
    if not platforms:
        msg = "jaxlib's WHEEL file has no platform tag; reinstall jaxlib from a wheel"
        raise PlanError(msg)
    return ".".join(sorted(platforms))


def _installed(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _version(distribution: str) -> str:
    version = _installed(distribution)
    if version is None:
        msg = (
            f"{distribution} is not installed in the build environment; install aotbuild[build] "
            "and jax there, or build with `pip wheel`, which does it"
        )
        raise PlanError(msg)
    return version
