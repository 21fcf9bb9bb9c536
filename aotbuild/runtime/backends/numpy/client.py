"""Clients: the devices of this process, made without jax and separate from jax's own."""

from __future__ import annotations

import os
from typing import Any

from aotbuild.errors import AotbuildError
from aotbuild.runtime.backends.numpy import private
from aotbuild.runtime.concurrency import SingleFlight
from aotbuild.runtime.devices import DeviceSet, devices_like, platform_of

_CLIENTS: SingleFlight[Any] = SingleFlight()
_PLATFORMS = {"cpu": "cpu", "cuda": "cuda", "gpu": "cuda"}
# jax looks for these before it loads the plugin (jax._src.hardware_utils).
_GPU_FILES = ("/dev/nvidia0", "/dev/nvidiactl", "/dev/dxg")


def client_of(platform: str) -> Any:
    """Return the client of a platform; there is one for the whole process."""
    return _CLIENTS.get(platform, _make_cpu if platform == "cpu" else _make_cuda)


def has_client() -> bool:
    """Return whether there is a client of any platform; takes no lock."""
    return len(_CLIENTS) > 0


def default_devices() -> DeviceSet:
    """Return the devices for a call that does not say where to run."""
    return devices_like(client_of(default_platform()).local_devices()[0])


def default_platform() -> str:
    """Return the platform that jit would use: the first of JAX_PLATFORMS, a GPU, or the CPU."""
    asked = [name for name in os.environ.get("JAX_PLATFORMS", "").split(",") if name]
    known = [_PLATFORMS[name] for name in asked if name in _PLATFORMS]
    if known:
        return known[0]
    if asked:
        expected = f'one of {", ".join(_PLATFORMS)} (arrays="numpy" knows no other)'
        msg = f"JAX_PLATFORMS\n  expected {expected}\n  found    {','.join(asked)}"
        raise AotbuildError(msg)
    if any(map(os.path.exists, _GPU_FILES)):
        from aotbuild.runtime.backends.numpy import cuda

        return "cuda" if cuda.plugin() else "cpu"
    return "cpu"


def devices_on(where: Any) -> DeviceSet:
    """Return a device by its name, as `cpu`, `cuda` or `cuda:1`; AotbuildError if there is none."""
    platform, _, number = str(where).partition(":")
    known = isinstance(where, str) and platform in _PLATFORMS and (number or "0").isdecimal()
    devices = client_of(_PLATFORMS[platform]).local_devices() if known else []
    index = int(number or 0) if known else 0
    if not index < len(devices):
        found = f"{where!r}; there are {len(devices)} of it" if known else repr(where)
        expected = "the name of a device, as 'cpu', 'cuda' or 'cuda:1'"
        msg = f"on(…)\n  expected {expected}\n  found    {found}"
        raise AotbuildError(msg)
    device = devices[index]
    return DeviceSet(platform_of(device), device, (device,), (device,), named=True)


def _make_cpu() -> Any:
    # As jax.config.jax_num_cpu_devices reads it; XLA_FLAGS are read by XLA itself.
    number = os.environ.get("JAX_NUM_CPU_DEVICES", "")
    return private.make_cpu_client(int(number) if number.isdecimal() else None)


def _make_cuda() -> Any:
    from aotbuild.runtime.backends.numpy import cuda

    return cuda.make_client()
