"""CPU targets: ISA levels, of this machine's architecture."""

from __future__ import annotations

from collections.abc import Iterator

from aotbuild.build.environment import Environment, Toolchain
from aotbuild.build.manifest import CpuTarget
from aotbuild.build.targets.hardware import Hardware
from aotbuild.spec.isa import missing_level_reason
from aotbuild.spec.target import Target


def problems(request: CpuTarget, _: Toolchain, environment: Environment) -> Iterator[str]:
    """Yield why this machine cannot build a target."""
    if environment.isa is None:
        yield "cpu: this machine's CPU is below every level that jaxlib supports"
        return
    for level in request.isa:
        if level == "host":
            continue
        reason = missing_level_reason(level, environment.architecture, environment.isa)
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
