"""Sets of devices, and the order in which an executable takes them. Works on any jaxlib device."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from aotbuild.frozen import dataclass
from aotbuild.spec.record import Requirements

_SHOWN = 16


@dataclass(frozen=True)
class DeviceSet:
    """Devices of one kind that a call may use.

    `local` are those of this process, `devices` those of all processes. `first` is the device of a
    call that needs one, None if there is none. `named` says that the caller chose them with `on`.
    """

    platform: str
    first: Any = None
    local: tuple[Any, ...] = ()
    devices: tuple[Any, ...] = ()
    named: bool = False


def devices_like(device: Any) -> DeviceSet:
    """Return all devices of the same kind as `device`, in the order of executables."""
    client, kind = device.client, _kind(device)
    devices = in_executable_order(d for d in client.devices() if _kind(d) == kind)
    local = tuple(d for d in devices if d.process_index == client.process_index())
    return DeviceSet(platform_of(device), device, local, devices)


def devices_for(requires: Requirements, devices: DeviceSet) -> tuple[Any, ...]:
    """Return the devices that an executable takes from a set; fewer if the set is too small."""
    if requires.processes > 1:
        return first_of_each_process(devices.devices, requires.devices // requires.processes)
    return (devices.first,) if requires.devices == 1 else devices.local[: requires.devices]


def platform_of(device: Any) -> str:
    """Return the platform of a jaxlib device as targets name it: `cpu`, `cuda`, `rocm`, `tpu`."""
    if device.platform != "gpu":
        return str(device.platform)
    return "rocm" if "rocm" in device.client.platform_version.lower() else "cuda"


def capability_of(device: Any) -> str | None:
    """Return the compute capability of a GPU as XLA compares it, as `9.0a`; None for others.

    PJRT reports it without the suffix. Inside XLA, a GPU of 9.0 or above always has the features
    that `a` stands for (xla/stream_executor/cuda/cuda_executor.cc).
    """
    capability = getattr(device, "compute_capability", None)
    if capability is None or platform_of(device) != "cuda":
        return capability
    major, _, minor = str(capability).partition(".")
    accelerated = major.isdigit() and minor.isdigit() and int(major) >= 9
    return f"{capability}a" if accelerated else str(capability)


def _kind(device: Any) -> tuple[str, Any]:
    return device.device_kind, getattr(device, "compute_capability", None)


# --- order --------------------------------------------------------------------------------------


def in_executable_order(devices: Iterable[Any]) -> tuple[Any, ...]:
    """Return TPU devices in the order that executables expect; others unchanged.

    That is the order of libtpu's topologies (0.0.42.1 and 0.0.50.1): slice by slice, process by
    process; within a process along x first, then y, then z; the cores of one chip together.
    """
    devices = tuple(devices)
    if not all(_has_coords(device) for device in devices):
        return devices
    origins: dict[int, tuple[int, ...]] = {}
    for device in devices:
        place = _coordinates(device)
        origins[device.process_index] = min(origins.get(device.process_index, place), place)
    return tuple(sorted(devices, key=lambda d: (origins[d.process_index], _coordinates(d))))


def first_of_each_process(devices: Iterable[Any], count: int) -> tuple[Any, ...]:
    """Return the first `count` devices of each process, in the order of the processes."""
    groups: dict[int, list[Any]] = {}
    for device in devices:
        groups.setdefault(device.process_index, []).append(device)
    return tuple(device for group in groups.values() for device in group[:count])


def slice_bounds(devices: Iterable[Any]) -> str | None:
    """Return the size of the slice that TPU devices span, as `2x4x1`; None for other devices."""
    devices = tuple(devices)
    if not devices or not all(_has_coords(device) for device in devices):
        return None
    axes = zip(*(device.coords for device in devices), strict=True)
    return "x".join(str(max(axis) - min(axis) + 1) for axis in axes)


@dataclass(frozen=True)
class DeviceProblem:
    """Why devices are not those that an executable was compiled for."""

    expected: str
    found: str
    remedy: str

    def __str__(self) -> str:
        return f"expected {self.expected}, found {self.found}"


def find_problem(requires: Requirements, devices: Sequence[Any]) -> DeviceProblem | None:
    """Return the first thing wrong with devices in this order, or None."""
    problems = (check(requires, devices) for check in _CHECKS)
    return next((problem for problem in problems if problem), None)


def _check_count(requires: Requirements, devices: Sequence[Any]) -> DeviceProblem | None:
    needed, found = requires.devices, len(set(devices))
    if found == needed == len(devices):
        return None
    twice = f", of which {len(devices) - found} twice" if found != len(devices) else ""
    expected = f"{needed} device{'s' if needed > 1 else ''}"
    return DeviceProblem(expected, f"{len(devices)}{twice}", "Give as many as it was compiled for.")


def _check_kind(_: Requirements, devices: Sequence[Any]) -> DeviceProblem | None:
    kinds = sorted({device.device_kind for device in devices})
    if len(kinds) == 1:
        return None
    return DeviceProblem("devices of one kind", ", ".join(kinds), "Use devices of one kind.")


def _check_processes(requires: Requirements, devices: Sequence[Any]) -> DeviceProblem | None:
    indices = [device.process_index for device in devices]
    share = max(1, len(devices) // max(1, requires.processes))
    blocks = [indices[start : start + share] for start in range(0, len(devices), share)]
    whole = all(len(set(block)) == 1 for block in blocks)
    if whole and len({block[0] for block in blocks}) == requires.processes:
        return None
    found = ", ".join(map(str, indices[:_SHOWN])) + ("…" if len(indices) > _SHOWN else "")
    if requires.processes == 1:
        return DeviceProblem(
            "devices of one process", f"processes {found}", "Use the devices of one process."
        )
    return DeviceProblem(
        f"{share} devices of each of {requires.processes} processes, one process after the other",
        f"processes {found}",
        "Order them by process_index: the code exchanges data within a process in another way "
        "than between two.",
    )


def _check_wiring(_: Requirements, devices: Sequence[Any]) -> DeviceProblem | None:
    expected = in_executable_order(devices)
    if expected == tuple(devices):
        return None
    return DeviceProblem(
        f"the order of the slice: {_names(expected)}",
        _names(devices),
        "A TPU executable is routed over the wires of its slice, so every device has its place. "
        "Make the mesh of the devices in that order: "
        "jax.sharding.Mesh(numpy.array(devices).reshape(sizes), names).",
    )


_CHECKS: tuple[Callable[[Requirements, Sequence[Any]], DeviceProblem | None], ...] = (
    _check_count,
    _check_kind,
    _check_processes,
    _check_wiring,
)


def _names(devices: Sequence[Any]) -> str:
    more = f" and {len(devices) - _SHOWN} more" if len(devices) > _SHOWN else ""
    return ", ".join(str(device) for device in devices[:_SHOWN]) + more


def _has_coords(device: Any) -> bool:
    return device.platform == "tpu" and getattr(device, "coords", None) is not None


def _coordinates(device: Any) -> tuple[int, ...]:
    """Return the place of a TPU device in counting order: slice, z, y, x, core."""
    of_slice, core = getattr(device, "slice_index", 0), getattr(device, "core_on_chip", 0)
    return (of_slice or 0, *reversed(device.coords), core or 0)
