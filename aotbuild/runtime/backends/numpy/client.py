"""Clients: the devices of this process, made without jax and apart from those that jax makes."""

from __future__ import annotations

import os
from typing import Any

from aotbuild.errors import AotbuildError
from aotbuild.runtime.backends.numpy import private as jaxlib_private
from aotbuild.runtime.concurrency import Once
from aotbuild.runtime.devices import Scope, platform_of, scope_around

_CLIENTS: Once[Any] = Once()
_PLATFORMS = {"cpu": "cpu", "cuda": "cuda", "gpu": "cuda"}
# What jax looks for before it loads the plugin (jax._src.hardware_utils).
_OF_GPUS = ("/dev/nvidia0", "/dev/nvidiactl", "/dev/dxg")


def client_of(platform: str) -> Any:
    """Return the client of a platform, the same for the whole process."""
    return _CLIENTS.get(platform, _make_cpu if platform == "cpu" else _make_cuda)


def has_client() -> bool:
    """Return whether there is a client of any platform."""
    return len(_CLIENTS) > 0


def default_scope() -> Scope:
    """Return what a call may use that says nothing of devices."""
    return scope_around(client_of(default_platform()).local_devices()[0])


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
    if any(map(os.path.exists, _OF_GPUS)):
        from aotbuild.runtime.backends.numpy import cuda

        return "cuda" if cuda.plugin() else "cpu"
    return "cpu"


def scope_on(where: Any) -> Scope:
    """Return the scope of a device by its name, as `cpu`, `cuda` or `cuda:1`.

    AotbuildError if there is none of that name.
    """
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
    return Scope(platform_of(device), device, (device,), (device,), named=True)


def _make_cpu() -> Any:
    # As jax.config.jax_num_cpu_devices reads it; XLA_FLAGS are read by XLA itself.
    number = os.environ.get("JAX_NUM_CPU_DEVICES", "")
    return jaxlib_private.make_cpu_client(int(number) if number.isdecimal() else None)


def _make_cuda() -> Any:
    from aotbuild.runtime.backends.numpy import cuda

    return cuda.make_client()
