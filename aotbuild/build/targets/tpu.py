"""TPU targets: slices by their topology."""

from __future__ import annotations

from collections.abc import Iterator

from aotbuild.build.environment import Environment, Toolchain
from aotbuild.build.manifest import TpuTarget
from aotbuild.build.targets.hardware import Hardware
from aotbuild.spec.target import Target


def packages(jax: str) -> list[str]:
    """Return what compiles for this platform beside that jax, as requirements."""
    return [f"jax[tpu]=={jax}"]


def problems(_: TpuTarget, __: Toolchain, ___: Environment) -> Iterator[str]:
    """Yield why this machine cannot build a target."""
    yield "tpu: this version of aotbuild builds cpu and portable targets only"


def expand(request: TpuTarget, devices: int, _: Environment) -> Iterator[tuple[Target, Hardware]]:
    """Yield the targets of a request for a function that spans so many devices."""
    for topology in request.topologies:
        yield Target("tpu", topology, devices), Hardware()
