"""Devices: which ones a call may use, and which of them an executable takes. Imports jax."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import jax
from jax.sharding import Mesh, Sharding

from aotbuild.errors import AotbuildError
from aotbuild.runtime import jax_private
from aotbuild.runtime.order import in_wiring_order, shares
from aotbuild.spec.record import Requirements


@dataclass(frozen=True)
class Scope:
    """Devices of one kind that a call may use.

    `here` are those of this process, `everywhere` those of all; `first` is what a call on one
    device takes, None if there is none. `named` says that a caller named them with `on`.
    """

    platform: str
    first: Any = None
    here: tuple[Any, ...] = ()
    everywhere: tuple[Any, ...] = ()
    named: bool = False


def platform_of(device: Any) -> str:
    """Return the platform of a jax device as targets name it: `cpu`, `cuda`, `rocm` or `tpu`."""
    if device.platform != "gpu":
        return str(device.platform)
    return "rocm" if "rocm" in device.client.platform_version.lower() else "cuda"


def capability_of(device: Any) -> str | None:
    """Return the compute capability of a GPU as XLA compares it, as `9.0a`; None for others.

    PJRT tells it without the suffix; inside XLA a GPU of 9.0 or above always has the features that
    `a` stands for (xla/stream_executor/cuda/cuda_executor.cc).
    """
    capability = getattr(device, "compute_capability", None)
    if capability is None or platform_of(device) != "cuda":
        return capability
    major, _, minor = str(capability).partition(".")
    accelerated = major.isdigit() and minor.isdigit() and int(major) >= 9
    return f"{capability}a" if accelerated else str(capability)


def default_device() -> Any:
    """Return the device that jit would use: `jax_default_device`, or the first local one."""
    chosen = jax.config.jax_default_device
    if chosen is None:
        return jax.local_devices()[0]
    return jax.local_devices(backend=chosen)[0] if isinstance(chosen, str) else chosen


def local_devices(platform: str) -> list[Any]:
    """Return this process's devices of a platform; none if it has no such platform."""
    try:
        return [d for d in jax.local_devices(backend=platform) if platform_of(d) == platform]
    except RuntimeError:
        return []


def scope_of(platform: str | None = None) -> Scope:
    """Return what a call may use that says nothing of devices, or nothing but the platform."""
    device = default_device()
    if platform in (None, platform_of(device)):
        return scope_around(device)
    found = local_devices(str(platform))
    return scope_around(found[0]) if found else Scope(str(platform))


def scope_around(device: Any) -> Scope:
    """Return the devices that are like one, in the order of executables."""
    client, kind = device.client, _kind(device)
    everywhere = in_wiring_order(d for d in client.devices() if _kind(d) == kind)
    here = tuple(d for d in everywhere if d.process_index == client.process_index())
    return Scope(platform_of(device), device, here, everywhere)


def scope_on(where: Any) -> Scope:
    """Return the scope of a device, of several, of a Mesh or a Sharding, in their own order.

    AotbuildError if they are not devices, not of one kind, or if none of them is this process's.
    """
    devices = _devices_in(where)
    here = tuple(d for d in devices if d.process_index == jax.process_index())
    kinds = sorted({f"{platform_of(d)} {d.device_kind}" for d in devices})
    if len(kinds) > 1:
        expected, found = "devices of one kind", ", ".join(kinds)
        raise _no_place(expected, found, "Call on(…) once for each kind.")
    if len(set(devices)) != len(devices):
        expected, found = "each device once", ", ".join(map(str, devices))
        raise _no_place(expected, found, "Leave out what is there twice.")
    if not here:
        expected = f"a device of this process ({jax.process_index()})"
        found = ", ".join(map(str, devices)) or "no device"
        raise _no_place(expected, found, "Take it from jax.local_devices().")
    return Scope(platform_of(here[0]), here[0], here, devices, named=True)


def devices_for(requires: Requirements, scope: Scope) -> tuple[Any, ...]:
    """Return the devices of a scope that an executable takes; fewer than it needs if it must."""
    if requires.processes > 1:
        return shares(scope.everywhere, requires.devices // requires.processes)
    return (scope.first,) if requires.devices == 1 else scope.here[: requires.devices]


def _kind(device: Any) -> tuple[str, Any]:
    return device.device_kind, getattr(device, "compute_capability", None)


def _devices_in(where: Any) -> tuple[Any, ...]:
    found: Any = where
    if isinstance(where, jax.Device):
        found = (where,)
    elif isinstance(where, Mesh):
        found = where.devices.flat
    elif isinstance(where, Sharding):
        found = jax_private.device_assignment(where)
    devices = tuple(found) if isinstance(found, Iterable) else (found,)
    if all(isinstance(device, jax.Device) for device in devices):
        return devices
    expected = "a device, several, a Mesh or a Sharding"
    raise _no_place(expected, repr(where), "Take devices from jax.devices(), as jax.devices()[0].")


def _no_place(expected: str, found: str, remedy: str) -> AotbuildError:
    return AotbuildError(f"on(…)\n  expected {expected}\n  found    {found}\n{remedy}")
