"""Scopes: which devices a call may use, and which of them an executable takes.

Pure: looks at devices, which are jaxlib's own with or without jax, and imports neither.
"""

from __future__ import annotations

from typing import Any

from aotbuild.frozen import dataclass
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
    """Return the platform of a jaxlib device as targets name it: `cpu`, `cuda`, `rocm`, `tpu`."""
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


def scope_around(device: Any) -> Scope:
    """Return the devices that are like one, in the order of executables."""
    client, kind = device.client, _kind(device)
    everywhere = in_wiring_order(d for d in client.devices() if _kind(d) == kind)
    here = tuple(d for d in everywhere if d.process_index == client.process_index())
    return Scope(platform_of(device), device, here, everywhere)


def devices_for(requires: Requirements, scope: Scope) -> tuple[Any, ...]:
    """Return the devices of a scope that an executable takes; fewer than it needs if it must."""
    if requires.processes > 1:
        return shares(scope.everywhere, requires.devices // requires.processes)
    return (scope.first,) if requires.devices == 1 else scope.here[: requires.devices]


def _kind(device: Any) -> tuple[str, Any]:
    return device.device_kind, getattr(device, "compute_capability", None)
