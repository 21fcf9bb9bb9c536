"""What this build environment is: versions, CPU, wheel platform. Read without importing jax."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib import metadata

from aotbuild.errors import PlanError
from aotbuild.spec import cpuinfo
from aotbuild.spec.isa import best_level


@dataclass(frozen=True)
class Toolchain:
    """The exact versions that trace, lower and compile."""

    jax: str
    jaxlib: str
    python: str

    def __str__(self) -> str:
        return f"jax {self.jax}, jaxlib {self.jaxlib}, Python {self.python}"


@dataclass(frozen=True)
class Environment:
    """A place where units are compiled. `isa` is the best level that its CPU satisfies."""

    toolchain: Toolchain
    architecture: str
    isa: str | None
    wheel_platform: str
    aotbuild: str


def probe() -> Environment:
    """Read the running environment; PlanError where jax or jaxlib is not installed."""
    architecture = cpuinfo.architecture()
    return Environment(
        toolchain=Toolchain(_version("jax"), _version("jaxlib"), platform.python_version()),
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


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError as err:
        msg = (
            f"{distribution} is not installed in the build environment; install aotbuild[build] "
            "and jax there, or build with `pip wheel`, which does it"
        )
        raise PlanError(msg) from err
