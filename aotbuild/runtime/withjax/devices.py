"""Devices of jax: which ones a call may use that names none, or names them with `on`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import jax
from jax.sharding import Mesh, Sharding

from aotbuild.errors import AotbuildError
from aotbuild.runtime import jax_private
from aotbuild.runtime.scope import Scope, platform_of, scope_around


def default_device() -> Any:
    """Return the device that jit would use: `jax_default_device`, or the first local one."""
    chosen = jax.config.jax_default_device
    if chosen is None:
        return jax.local_devices()[0]
    return jax.local_devices(backend=chosen)[0] if isinstance(chosen, str) else chosen


def settings() -> Callable[[], AbstractContextManager[None]]:
    """Return what gives another thread those settings of this one that decide loading.

    `jax.enable_x64` and `jax.default_device` hold for the thread that entered them.
    """
    x64, device = bool(jax.config.jax_enable_x64), jax.config.jax_default_device

    @contextmanager
    def entered() -> Iterator[None]:
        with jax.enable_x64(x64), jax.default_device(device):
            yield

    return entered


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
