"""CPU targets: ISA levels, of this machine's architecture."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.version import Version

from aotbuild.manifest import CpuTarget
from aotbuild.platforms.base import Hardware
from aotbuild.spec.isa import missing_level_reason
from aotbuild.spec.target import Target
from aotbuild.toolchains.environment import Environment, Toolchain

# From here on jaxlib compiles for a CPU that is described to it; an older one only for the CPU it
# runs on, below a cap (docs/decisions/0013-cpu-levels.md).
_FIRST_TO_CROSS_COMPILE = Version("0.11.2")


def cross_compiles(jaxlib: str) -> bool:
    """Return whether that version of jaxlib compiles for exactly a level, on any machine."""
    return Version(jaxlib) >= _FIRST_TO_CROSS_COMPILE


def problems(request: CpuTarget, toolchain: Toolchain, environment: Environment) -> Iterator[str]:
    """Yield why this machine cannot build a target."""
    if environment.isa is None:
        yield "cpu: this machine's CPU is below every level that jaxlib supports"
        return
    best = None if cross_compiles(toolchain.jaxlib) else environment.isa
    for level in request.isa:
        if level == "host":
            continue
        reason = missing_level_reason(level, environment.architecture, best)
        if reason:
            yield f"cpu: {reason}"


def expand(
    request: CpuTarget, devices: int, environment: Environment
) -> Iterator[tuple[Target, Hardware]]:
    """Yield the targets of a request for a function that spans so many devices."""
    if request.devices in (None, devices):
        for level in request.isa:
            detail = (environment.isa or level) if level == "host" else level
            yield Target("cpu", detail, devices), Hardware()


def cap(target: Target, toolchain: Toolchain) -> str | None:
    """Return the level at which a whole process must be capped to compile a target, if any."""
    capped = target.platform == "cpu" and not cross_compiles(toolchain.jaxlib)
    return target.detail if capped else None
