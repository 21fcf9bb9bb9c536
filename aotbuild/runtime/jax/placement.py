"""Placement: the devices that a call may use, and whether its arguments can be used there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, Sharding, SingleDeviceSharding

from aotbuild.errors import AotbuildError, InvalidArgument
from aotbuild.format.record import Calling, PartitionSpec, Record
from aotbuild.platforms.base import client_part, platform_of, plugged
from aotbuild.runtime.binding import Call
from aotbuild.runtime.devices import DeviceSet, devices_for, devices_like, find_problem
from aotbuild.runtime.jax import private
from aotbuild.runtime.jax.clients import clients


@dataclass(frozen=True)
class Placement:
    """Devices in the order of the executable, and whether its outputs are committed to them."""

    devices: tuple[Any, ...]
    committed: bool


# --- devices ------------------------------------------------------------------------------------


def make_clients() -> None:
    """Have jax make its clients, if nothing has, as a process that only calls executables needs.

    Whatever computed with jax before has made them as jax does.
    """
    if not clients():
        parts = list(map(client_part, plugged()))
        usual = [part.options() for part in parts if part.is_default()]
        try:
            private.make_clients({name: value for each in usual for name, value in each.items()})
        except RuntimeError as err:
            found = next(filter(None, (part.shortage(str(err), 0) for part in parts)), None)
            if found is None:
                raise
            raise AotbuildError(found) from err


def default_devices(platform: str | None = None) -> DeviceSet:
    """Return the devices for a call that does not say where to run, of any platform or of one."""
    make_clients()
    device = jax.config.jax_default_device
    if device is None:
        device = jax.local_devices()[0]
    elif isinstance(device, str):
        device = jax.local_devices(backend=device)[0]
    if platform in (None, platform_of(device)):
        return devices_like(device)
    try:
        found = [d for d in jax.local_devices(backend=platform) if platform_of(d) == platform]
    except RuntimeError:  # this process has no such platform
        found = []
    return devices_like(found[0]) if found else DeviceSet(str(platform))


def devices_of_call(call: Call) -> DeviceSet:
    """Return the devices like those of a call's first committed argument, or the default ones."""
    for leaf in call.leaves:
        if isinstance(leaf, jax.Array) and leaf.committed:
            return devices_like(next(iter(leaf.sharding.device_set)))
    return default_devices()


def devices_on(where: Any) -> DeviceSet:
    """Return one device, several, or those of a Mesh or a Sharding, in their own order.

    AotbuildError if they are not devices, not of one kind, or if none of them is this process's.
    """
    devices = _devices_in(where)
    local = tuple(d for d in devices if d.process_index == jax.process_index())
    kinds = sorted({f"{platform_of(d)} {d.device_kind}" for d in devices})
    if len(kinds) > 1:
        expected, found = "devices of one kind", ", ".join(kinds)
        raise _no_place(expected, found, "Call on(…) once for each kind.")
    if len(set(devices)) != len(devices):
        expected, found = "each device once", ", ".join(map(str, devices))
        raise _no_place(expected, found, "Leave out what is there twice.")
    if not local:
        expected = f"a device of this process ({jax.process_index()})"
        found = ", ".join(map(str, devices)) or "no device"
        raise _no_place(expected, found, "Take it from jax.local_devices().")
    return DeviceSet(platform_of(local[0]), local[0], local, devices, named=True)


def _devices_in(where: Any) -> tuple[Any, ...]:
    found: Any = where
    if isinstance(where, jax.Device):
        found = (where,)
    elif isinstance(where, Mesh):
        found = where.devices.flat
    elif isinstance(where, Sharding):
        found = private.device_assignment(where)
    devices = tuple(found) if isinstance(found, Iterable) else (found,)
    if all(isinstance(device, jax.Device) for device in devices):
        return devices
    expected = "a device, several, a Mesh or a Sharding"
    raise _no_place(expected, repr(where), "Take devices from jax.devices(), as jax.devices()[0].")


def _no_place(expected: str, found: str, remedy: str) -> AotbuildError:
    return AotbuildError(f"on(…)\n  expected {expected}\n  found    {found}\n{remedy}")


def settings() -> Callable[[], AbstractContextManager[None]]:
    """Return a context manager that gives another thread this thread's relevant settings.

    `jax.enable_x64` and `jax.default_device` hold only for the thread that entered them.
    """
    x64, device = bool(jax.config.jax_enable_x64), jax.config.jax_default_device

    @contextmanager
    def entered() -> Iterator[None]:
        with jax.enable_x64(x64), jax.default_device(device):
            yield

    return entered


def put_tree(tree: Any, devices: DeviceSet | None) -> Any:
    """Return a tree on a device; AotbuildError if the caller chose several."""
    if devices is None or len(devices.devices) == 1:
        make_clients()
        try:
            return jax.device_put(tree, devices.devices[0] if devices else None)
        except TypeError as err:
            msg = f"place(…): the tree\n  expected arrays and numbers\n  found    {err}"
            raise AotbuildError(msg) from err
    msg = (
        f"place(…)\n  expected a library on one device\n  found    {_names(devices.devices)}\n"
        "Say how it is sharded: jax.device_put(tree, sharding)."
    )
    raise AotbuildError(msg)


# --- arguments ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Leaf:
    """An array argument of a call. `paths` returns the paths of all leaves; for errors only."""

    call: Call
    index: int
    paths: Callable[[], Sequence[str]]

    @property
    def array(self) -> Any:
        return self.call.leaves[self.index]

    @property
    def path(self) -> str:
        return self.paths()[self.index]

    def error(self, expected: str, found: str, remedy: str) -> InvalidArgument:
        name = self.call.bound.function.name
        return InvalidArgument(name, self.path, expected, found, remedy)


def placement_of_call(
    call: Call, record: Record, devices: DeviceSet, paths: Callable[[], Sequence[str]]
) -> Placement:
    """Return where a call of a record runs; InvalidArgument if an argument cannot be used there.

    Committed arrays decide, as they do for jit; every other value follows them. `paths` returns the
    path of each leaf.
    """
    leaves = [_Leaf(call, index, paths) for index in range(len(call.leaves))]
    arrays = [leaf for leaf in leaves if isinstance(leaf.array, jax.Array)]
    for leaf in arrays:
        _check_layout(leaf)
    committed = [leaf for leaf in arrays if leaf.array.committed]
    requires, chosen = record.requires, devices_for(record.requires, devices)
    if committed:
        chosen = _common_devices(committed, requires.devices)
        _check_named(committed[0], chosen, devices)
    problem = find_problem(requires, chosen)
    if problem:
        path, name = committed[0].path if committed else "(all)", call.bound.function.name
        raise InvalidArgument(name, path, problem.expected, problem.found, problem.remedy)
    for leaf, sharding in zip(leaves, leaf_shardings(record, chosen), strict=True):
        if isinstance(leaf.array, jax.Array) and leaf.array.committed:
            _check_sharding(leaf, sharding)
        elif requires.processes > 1:
            _check_replicated(leaf, sharding)
    return Placement(chosen, bool(committed) or bool(record.calling.mesh) or devices.named)


def default_placement(record: Record, devices: DeviceSet) -> Placement:
    """Return where a call of a record without committed arguments runs."""
    chosen = devices_for(record.requires, devices)
    return Placement(chosen, bool(record.calling.mesh) or devices.named)


def _common_devices(committed: Sequence[_Leaf], count: int) -> tuple[Any, ...]:
    first = committed[0]
    devices = private.device_assignment(first.array.sharding)
    for leaf in committed[1:]:
        others = private.device_assignment(leaf.array.sharding)
        if others != devices:
            expected = f"the devices of {first.path}: {_names(devices)}"
            remedy = "Put all arguments on the same devices in the same order with jax.device_put."
            raise leaf.error(expected, _names(others), remedy)
    if len(devices) != count:
        expected = f"an array on {count} device{'s' if count > 1 else ''}"
        where = "jax.devices()[0]" if count == 1 else "sharding"
        remedy = f"Put it where the function was compiled to run: jax.device_put(x, {where})."
        raise first.error(expected, f"{first.array.sharding}", remedy)
    return devices


def _check_named(first: _Leaf, chosen: Sequence[Any], devices: DeviceSet) -> None:
    """Refuse devices that `on` does not name, as jit refuses those not in its shardings."""
    if devices.named and not set(chosen) <= set(devices.devices):
        expected = f"an array on {_names(devices.devices)}, as on(…) says, or one not committed"
        remedy = "Put it there with jax.device_put, or call the library without on(…)."
        raise first.error(expected, f"an array on {_names(chosen)}", remedy)


def _check_replicated(leaf: _Leaf, sharding: Any) -> None:
    """Refuse a value of one process if it is sharded over several, as jit does."""
    if not sharding.is_fully_replicated:
        expected = f"an array over all processes: {sharding}"
        found = f"a value of this process alone ({type(leaf.array).__name__})"
        remedy = "Make it with jax.make_array_from_process_local_data(sharding, x)."
        raise leaf.error(expected, found, remedy)


def _check_sharding(leaf: _Leaf, expected: Any) -> None:
    if not leaf.array.sharding.is_equivalent_to(expected, leaf.array.ndim):
        remedy = f"Use jax.device_put(x, sharding), where sharding is the expected {expected}."
        raise leaf.error(str(expected), str(leaf.array.sharding), remedy)


def _check_layout(leaf: _Leaf) -> None:
    if leaf.array.is_deleted():
        remedy = "It was donated to an earlier call; use that call's result instead."
        raise leaf.error(expected="an array", found="a deleted array", remedy=remedy)
    if not private.has_default_layout(leaf.array):
        remedy = "Copy it with jax.numpy.array(x) into the default layout."
        expected, found = "the row-major layout", str(leaf.array.format.layout)
        raise leaf.error(expected, found, remedy)


def _names(devices: Sequence[Any]) -> str:
    return ", ".join(str(device) for device in devices)


# --- shardings ----------------------------------------------------------------------------------


def constant_shardings(calling: Calling, xla_executable: Any, devices: Sequence[Any]) -> list[Any]:
    """Return the sharding of every constant; over a mesh, the one that XLA chose for it."""
    whole = _shardings(calling, [()] * len(calling.constants), devices)
    if not calling.mesh or not whole:
        return whole
    chosen = private.parameter_shardings(xla_executable, whole[0].mesh)
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
    explicit = calling.explicit_axes
    types = tuple(AxisType.Explicit if name in explicit else AxisType.Auto for name in names)
    mesh = Mesh(grid, names, axis_types=types)
    return [NamedSharding(mesh, jax.sharding.PartitionSpec(*spec)) for spec in specs]
