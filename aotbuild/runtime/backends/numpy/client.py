"""Clients: the devices of this process, made without jax and separate from jax's own."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

from aotbuild.errors import AotbuildError
from aotbuild.platforms.base import client_part, names, platform_of
from aotbuild.runtime.backends.numpy import private
from aotbuild.runtime.concurrency import SingleFlight
from aotbuild.runtime.devices import DeviceSet, devices_like
from aotbuild.spec.target import HOST

_CLIENTS: SingleFlight[Any] = SingleFlight()


def client_of(platform: str) -> Any:
    """Return the client of a platform; there is one for the whole process."""
    make = _make_host if platform == HOST else lambda: client_part(platform).make(private)
    return _CLIENTS.get(platform, make)


def has_client() -> bool:
    """Return whether there is a client of any platform; takes no lock."""
    return len(_CLIENTS) > 0


def default_devices() -> DeviceSet:
    """Return the devices for a call that does not say where to run."""
    return devices_like(client_of(default_platform()).local_devices()[0])


def default_platform() -> str:
    """Return the platform that jit would use: the first of JAX_PLATFORMS, a GPU, or the CPU."""
    asked = [name for name in os.environ.get("JAX_PLATFORMS", "").split(",") if name]
    known = platform_names() if asked else {}
    found = [known[name] for name in asked if name in known]
    if found:
        return found[0]
    if asked:
        expected = f'one of {", ".join(known)} (arrays="numpy" knows no other)'
        msg = f"JAX_PLATFORMS\n  expected {expected}\n  found    {','.join(asked)}"
        raise AotbuildError(msg)
    # Where no plugin of jax is installed, no platform needs to be looked at.
    others = names("client") if find_spec("jax_plugins") else ()
    return next((name for name in others if client_part(name).is_default()), HOST)


def platform_names() -> dict[str, str]:
    """Return the platforms that this backend can use, by all their names in jax."""
    others = {n: name for name in names("client") for n in (name, *client_part(name).aliases)}
    return {HOST: HOST, **others}


def devices_on(where: Any) -> DeviceSet:
    """Return a device by its name, as `cpu`, `cuda` or `cuda:1`; AotbuildError if there is none."""
    platform, _, number = str(where).partition(":")
    known = platform_names().get(platform) if isinstance(where, str) else None
    known = known if (number or "0").isdecimal() else None
    devices = client_of(known).local_devices() if known else []
    index = int(number or 0) if known else 0
    if not index < len(devices):
        found = f"{where!r}; there are {len(devices)} of it" if known else repr(where)
        expected = "the name of a device, as 'cpu', 'cuda' or 'cuda:1'"
        msg = f"on(…)\n  expected {expected}\n  found    {found}"
        raise AotbuildError(msg)
    device = devices[index]
    return DeviceSet(platform_of(device), device, (device,), (device,), named=True)


def _make_host() -> Any:
    # As jax.config.jax_num_cpu_devices reads it; XLA_FLAGS are read by XLA itself.
    number = os.environ.get("JAX_NUM_CPU_DEVICES", "")
    return private.make_host_client(int(number) if number.isdecimal() else None)
