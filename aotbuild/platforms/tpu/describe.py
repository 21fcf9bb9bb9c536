"""TPU targets: slices by their topology."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aotbuild.manifest import TpuTarget
from aotbuild.platforms.base import Hardware
from aotbuild.platforms.tpu.slices import TpuSlice, parse_slice
from aotbuild.spec.target import Target
from aotbuild.toolchains.environment import Environment, Toolchain

# The distribution that compiles for TPUs, and without which none runs.
LIBTPU = "libtpu"


def packages(jax: str) -> list[str]:
    """Return what compiles for this platform beside that jax, as requirements."""
    return [f"jax[tpu]=={jax}", LIBTPU]


def problems(_: TpuTarget, toolchain: Toolchain, __: Environment) -> Iterator[str]:
    """Yield why this machine cannot build a target."""
    if LIBTPU not in dict(toolchain.plugins):
        yield (
            f"tpu: {LIBTPU} is not installed beside jax {toolchain.jax}; name the toolchain under "
            f"toolchains:, or install it here: pip install 'jax[tpu]=={toolchain.jax}'"
        )


def expand(request: TpuTarget, devices: int, _: Environment) -> Iterator[tuple[Target, Hardware]]:
    """Yield the targets of a request for a function that spans so many devices.

    A function on one device runs on any device of the slice; one on more spans the whole of it.
    """
    for name in request.topologies:
        found = parse_slice(name)
        processes = request.processes or found.processes
        hardware = _hardware(name, found, processes, request.slices)
        if devices == 1:
            yield Target("tpu", name), hardware
        elif devices == found.devices * request.slices:
            yield Target("tpu", name, devices, processes * request.slices), hardware


def _hardware(name: str, found: TpuSlice, processes: int, slices: int) -> Hardware:
    """Return what is known of a slice, and what libtpu is told of it."""
    bounds = found.bounds(processes)
    assert bounds is not None, "the manifest was checked"
    told: list[tuple[str, Any]] = [("topology_name", name), ("chips_per_host_bounds", bounds)]
    if found.generation.config is not None:
        told.append(("chip_config_name", found.generation.config))
    if slices > 1:
        told.append(("num_slices", slices))
    return Hardware(found.generation.kind, found.generation.memory, description=tuple(told))
