"""Devices of jax that a call may use, and whether its arguments may go there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, Sharding, SingleDeviceSharding

from aotbuild.errors import AotbuildError, InvalidArgument
from aotbuild.frozen import dataclass
from aotbuild.runtime.backends.jax import private as jax_private
from aotbuild.runtime.binding import Call
from aotbuild.runtime.devices import Scope, devices_for, misplaced, platform_of, scope_around
from aotbuild.spec.record import Calling, PartitionSpec, Record


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


@dataclass(frozen=True)
class Placement:
    """Devices in the order of the executable, and whether its outputs are committed to them."""

    devices: tuple[Any, ...]
    committed: bool


@dataclass(frozen=True)
class _Committed:
    """A leaf that must stay where it is."""

    path: str
    array: Any


def scope_of_call(call: Call) -> Scope:
    """Return what a call may use: devices like those of its committed arguments, else the default.

    A caller who named devices with `on` has a scope already.
    """
    for leaf in call.leaves:
        if isinstance(leaf, jax.Array) and leaf.committed:
            return scope_around(next(iter(leaf.sharding.device_set)))
    return scope_of()


def place(call: Call, record: Record, scope: Scope) -> Placement:
    """Return where a call of a record runs; InvalidArgument if an argument cannot be used there.

    Committed arrays decide, as they do for jit; every other value follows them.
    """
    arrays = [
        (index, leaf) for index, leaf in enumerate(call.leaves) if isinstance(leaf, jax.Array)
    ]
    for index, array in arrays:
        _check_layout(call, index, array)
    committed = [_Committed(call.paths[index], array) for index, array in arrays if array.committed]
    name, requires = call.bound.function.name, record.requires
    if committed:
        devices = _common_devices(name, committed, requires.devices)
        _check_scope(name, committed[0], devices, scope)
    else:
        devices = devices_for(requires, scope)
    problem = misplaced(requires, devices)
    if problem:
        path = committed[0].path if committed else "(all)"
        raise InvalidArgument(name, path, problem.expected, problem.found, problem.remedy)
    shardings = leaf_shardings(record, devices)
    for path, leaf, sharding in zip(call.paths, call.leaves, shardings, strict=True):
        if isinstance(leaf, jax.Array) and leaf.committed:
            _check_sharding(name, _Committed(path, leaf), sharding)
        elif requires.processes > 1:
            _check_replicated(name, path, leaf, sharding)
    return Placement(devices, bool(committed) or bool(record.calling.mesh) or scope.named)


def place_alone(record: Record, scope: Scope) -> Placement:
    """Return where a call of a record runs that gives no committed arrays."""
    devices = devices_for(record.requires, scope)
    return Placement(devices, bool(record.calling.mesh) or scope.named)


def constant_shardings(calling: Calling, xla_executable: Any, devices: Sequence[Any]) -> list[Any]:
    """Return the sharding of every constant; over a mesh, the one that XLA chose for it."""
    whole = _shardings(calling, [()] * len(calling.constants), devices)
    if not calling.mesh or not whole:
        return whole
    chosen = jax_private.parameter_shardings(xla_executable, whole[0].mesh)
    by_input = dict(zip(sorted(calling.kept), chosen, strict=False))
    return [by_input.get(index, sharding) for index, sharding in enumerate(whole)]


def leaf_shardings(record: Record, devices: Sequence[Any]) -> list[Any]:
    """Return the sharding of every leaf of the signature, also of those that are not kept."""
    specs = record.calling.in_specs or [()] * len(record.signature.leaves)
    return _shardings(record.calling, specs, devices)


def output_shardings(calling: Calling, devices: Sequence[Any]) -> list[Any]:
    """Return the sharding of every output."""
    return _shardings(calling, calling.out_specs or [()] * len(calling.outputs), devices)


def _shardings(
    calling: Calling, specs: Sequence[PartitionSpec], devices: Sequence[Any]
) -> list[Any]:
    if not calling.mesh:
        return [SingleDeviceSharding(devices[0])] * len(specs)
    grid = np.array(list(devices), dtype=object).reshape([size for _, size in calling.mesh])
    names = tuple(axis for axis, _ in calling.mesh)
    mesh = Mesh(grid, names, axis_types=(AxisType.Auto,) * len(names))
    return [NamedSharding(mesh, jax.sharding.PartitionSpec(*spec)) for spec in specs]


def _common_devices(name: str, committed: Sequence[_Committed], count: int) -> tuple[Any, ...]:
    first = committed[0]
    devices = jax_private.device_assignment(first.array.sharding)
    for item in committed[1:]:
        if jax_private.device_assignment(item.array.sharding) != devices:
            raise _misplaced(
                name,
                item,
                f"the devices of {first.path}: {_ids(devices)}",
                _ids(jax_private.device_assignment(item.array.sharding)),
                "Put all arguments on the same devices in the same order with jax.device_put.",
            )
    if len(devices) != count:
        expected = f"an array on {count} device{'s' if count > 1 else ''}"
        where = "jax.devices()[0]" if count == 1 else "sharding"
        remedy = f"Put it where the function was compiled to run: jax.device_put(x, {where})."
        raise _misplaced(name, first, expected, f"{first.array.sharding}", remedy)
    return devices


def _check_scope(name: str, first: _Committed, devices: Sequence[Any], scope: Scope) -> None:
    """Refuse devices that `on` does not name, as jit refuses those not in its shardings."""
    if scope.named and not set(devices) <= set(scope.everywhere):
        expected = f"an array on {_ids(scope.everywhere)}, as on(…) says, or one not committed"
        remedy = "Put it there with jax.device_put, or call the library without on(…)."
        raise _misplaced(name, first, expected, f"an array on {_ids(devices)}", remedy)


def _check_replicated(name: str, path: str, leaf: Any, sharding: Any) -> None:
    """Refuse a value of one process where each needs its part: theirs may differ. As jit does."""
    if not sharding.is_fully_replicated:
        expected = f"an array over all processes: {sharding}"
        found = f"a value of this process alone ({type(leaf).__name__})"
        remedy = "Make it with jax.make_array_from_process_local_data(sharding, x)."
        raise InvalidArgument(name, path, expected, found, remedy)


def _check_sharding(name: str, item: _Committed, expected: Any) -> None:
    if not item.array.sharding.is_equivalent_to(expected, item.array.ndim):
        remedy = f"Use jax.device_put(x, sharding), where sharding is the expected {expected}."
        raise _misplaced(name, item, str(expected), str(item.array.sharding), remedy)


def _check_layout(call: Call, index: int, array: Any) -> None:
    if array.is_deleted():
        item = _Committed(call.paths[index], array)
        remedy = "It was donated to an earlier call; use that call's result instead."
        raise _misplaced(call.bound.function.name, item, "an array", "a deleted array", remedy)
    if not jax_private.has_default_layout(array):
        item = _Committed(call.paths[index], array)
        remedy = "Copy it with jax.numpy.array(x) into the default layout."
        found = str(array.format.layout)
        raise _misplaced(call.bound.function.name, item, "the row-major layout", found, remedy)


def _misplaced(
    name: str, item: _Committed, expected: str, found: str, remedy: str
) -> InvalidArgument:
    return InvalidArgument(name, item.path, expected, found, remedy)


def _ids(devices: Sequence[Any]) -> str:
    return ", ".join(str(device) for device in devices)
