"""Sets of devices, and the order in which an executable takes them. Works on any jaxlib device."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from aotbuild.errors import AotbuildError
from aotbuild.format.record import Requirements
from aotbuild.platforms.base import Host, client_part, host_part, machine, platform_of

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


def host_of(devices: DeviceSet, **facts: Any) -> Host:
    """Return the host's facts for some devices; `facts` are those that the backend knows."""
    from jaxlib.version import __version__ as jaxlib_version

    here, part = machine(), host_part(devices.platform)
    return Host(
        platform=devices.platform,
        device_count=len(devices.local),
        device_kinds=tuple(sorted({device.device_kind for device in devices.local})),
        architecture=here.architecture,
        features=here.features,
        jaxlib=jaxlib_version,
        devices_everywhere=len(devices.devices),
        plugins=part.installed(),
        named=devices.named,
        facts=part.facts(devices.first) if devices.local else (),
        **facts,
    )


def _kind(device: Any) -> tuple[str, Any]:
    return device.device_kind, getattr(device, "compute_capability", None)


def shortage(what: object, device: Any, error: Exception) -> AotbuildError | None:
    """Return the error that says that a device has too little free memory; None if it has not."""
    said = f"{type(error).__name__}: {error}"
    found = client_part(platform_of(device)).shortage(said, device.local_hardware_id)
    return None if found is None else AotbuildError(f"{what}: {found}")


# --- order --------------------------------------------------------------------------------------


def in_executable_order(devices: Iterable[Any]) -> tuple[Any, ...]:
    """Return devices of one kind in the order that executables expect."""
    devices = tuple(devices)
    if len(devices) < 2:
        return devices
    return host_part(platform_of(devices[0])).in_order(devices)


def first_of_each_process(devices: Iterable[Any], count: int) -> tuple[Any, ...]:
    """Return the first `count` devices of each process, in the order of the processes."""
    groups: dict[int, list[Any]] = {}
    for device in devices:
        groups.setdefault(device.process_index, []).append(device)
    return tuple(device for group in groups.values() for device in group[:count])


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
    if len(devices) == requires.devices == requires.processes == 1:
        return None
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


def _check_order(_: Requirements, devices: Sequence[Any]) -> DeviceProblem | None:
    expected = in_executable_order(devices)
    if expected == tuple(devices):
        return None
    part = host_part(platform_of(devices[0]))
    return DeviceProblem(f"{part.order}: {_names(expected)}", _names(devices), part.order_remedy)


_CHECKS: tuple[Callable[[Requirements, Sequence[Any]], DeviceProblem | None], ...] = (
    _check_count,
    _check_kind,
    _check_processes,
    _check_order,
)


def _names(devices: Sequence[Any]) -> str:
    more = f" and {len(devices) - _SHOWN} more" if len(devices) > _SHOWN else ""
    return ", ".join(str(device) for device in devices[:_SHOWN]) + more
