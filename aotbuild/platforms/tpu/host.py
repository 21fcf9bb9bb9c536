"""TPUs of a host: the size of their slice, and the order of devices in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from aotbuild.platforms.base import Facts, HostPart


def in_wiring_order(devices: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return devices in the order of executables; without coordinates, unchanged.

    That is the order of libtpu's topologies (0.0.42.1 and 0.0.50.1): slice by slice, process by
    process, in each along x first, then y, then z, and the cores of one chip together.
    """
    if not all(map(_has_coords, devices)):
        return devices
    origins: dict[int, tuple[int, ...]] = {}
    for device in devices:
        place = _place(device)
        origins[device.process_index] = min(origins.get(device.process_index, place), place)
    return tuple(sorted(devices, key=lambda d: (origins[d.process_index], _place(d))))


def bounds(devices: Iterable[Any]) -> str | None:
    """Return the size of the slice that devices span, such as `2x4x1`; None without coordinates."""
    devices = tuple(devices)
    if not devices or not all(map(_has_coords, devices)):
        return None
    axes = zip(*(device.coords for device in devices), strict=True)
    return "x".join(str(max(axis) - min(axis) + 1) for axis in axes)


def _has_coords(device: Any) -> bool:
    return getattr(device, "coords", None) is not None


def _place(device: Any) -> tuple[int, ...]:
    """Return where a device is, in the order of counting: slice, z, y, x, core."""
    of_slice, core = getattr(device, "slice_index", 0), getattr(device, "core_on_chip", 0)
    return (of_slice or 0, *reversed(device.coords), core or 0)


class Tpu(HostPart):
    """See `HostPart`."""

    plugins = packages = ("libtpu",)
    variables = ("LIBTPU_INIT_ARGS", "TPU_VISIBLE_CHIPS")
    fact_names = ("topology",)
    order = "the order of the slice"
    order_remedy = (
        "A TPU executable is routed over the wires of its slice, so every device has its place. "
        "Make the mesh of the devices in that order: "
        "jax.sharding.Mesh(numpy.array(devices).reshape(sizes), names)."
    )

    def facts(self, device: Any) -> Facts:
        # Of the whole slice: some of its devices have the same wiring.
        return (("topology", bounds(device.client.devices())),)

    def in_order(self, devices: tuple[Any, ...]) -> tuple[Any, ...]:
        return in_wiring_order(devices)


PLATFORM = Tpu()
