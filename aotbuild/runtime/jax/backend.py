"""The jax backend: what `runtime.backend` asks for, with jax's arrays and devices."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from aotbuild.errors import AotbuildError
from aotbuild.format.record import Record
from aotbuild.format.signature import Function
from aotbuild.platforms.base import Host
from aotbuild.runtime.binding import Call, leaf_paths
from aotbuild.runtime.checked_blobs import Source
from aotbuild.runtime.concurrency import SingleFlight, Stats, refuse_if_forked, watch_forks
from aotbuild.runtime.devices import DeviceSet, host_of
from aotbuild.runtime.jax import placement, private
from aotbuild.runtime.jax.clients import clients
from aotbuild.runtime.jax.placement import (
    Placement,
    constant_shardings,
    leaf_shardings,
    output_shardings,
)

if TYPE_CHECKING:
    from aotbuild.format.padding import Fills
    from aotbuild.runtime.backend import CallWrap, OpenPackage
    from aotbuild.runtime.jax.fallback import JaxFallback, Portable

_NUMBERS = (bool, int, float, complex)


class JaxBackend:
    """See `runtime.backend.Backend`."""

    arrays = "jax"
    keeps_results = True

    def __init__(self, source: Source, stats: Stats) -> None:
        watch_forks(clients)
        self._source = source
        self._stats = stats
        self._portable: SingleFlight[Portable] = SingleFlight()
        self._wraps: SingleFlight[CallWrap] = SingleFlight()
        self.trees = JaxTrees()
        self.executable_loader = JaxExecutableLoader()
        self.padding = JaxPaddedArrays()
        self.aval_of = private.aval_of
        self.has_tracers = private.has_tracers
        self.probe = probe
        self.settings = placement.settings
        self.default_devices = placement.default_devices
        self.devices_on = placement.devices_on
        self.devices_of_call = placement.devices_of_call
        self.default_placement = placement.default_placement

    def remedy(self, value: Any) -> str:
        """Return what to do about a leaf that has no aval."""
        from aotbuild.runtime.trees import byte_order_remedy

        return byte_order_remedy(value) or (
            "Convert it with jax.numpy.asarray, or declare the parameter static in the manifest."
        )

    def placement_of_call(self, call: Call, record: Record, devices: DeviceSet) -> Placement:
        """Return where a call of a record runs; InvalidArgument if an argument prevents it."""
        paths = lambda: leaf_paths(call.bound, self.trees)  # noqa: E731 - for errors only
        return placement.placement_of_call(call, record, devices, paths)

    def dispatch(self, *args: Any) -> Callable[..., Any]:
        """Return the C++ dispatch of a function; the arguments are those of `make_dispatch`."""
        return private.make_dispatch(*args)

    def put_tree(self, tree: Any, devices: DeviceSet | None) -> Any:
        """Return a tree on a device; committed to it if the caller chose one."""
        refuse_if_forked("place()")
        return placement.put_tree(tree, devices)

    def wrap(self, function: Function) -> CallWrap:
        """Return the wrap of a function. Imported late: few functions have one."""
        from aotbuild.runtime.jax.wraps import make_wrap

        return self._wraps.get(function.wrap, lambda: make_wrap(function))

    def fallback(
        self,
        package: OpenPackage,
        function: Function,
        source: Callable[..., Any] | None,
        devices: DeviceSet | None,
    ) -> JaxFallback:
        """Return the fallback of a function. Imported late: most processes never need it."""
        from aotbuild.runtime.jax.fallback import JaxFallback, Portable

        make = lambda: Portable(self, package.name, self._source, self._stats)  # noqa: E731
        portable = self._portable.get("portable", make)
        return JaxFallback(self, portable, package, function, source, devices)


def probe(where: str | DeviceSet | None = None) -> Host:
    """Return the host's facts for some devices, a platform, or the default device."""
    devices = where if isinstance(where, DeviceSet) else placement.default_devices(where)
    return host_of(
        devices,
        process_count=jax.process_count(),
        x64=bool(jax.config.jax_enable_x64),
        custom_calls=private.custom_call_targets(devices.platform),
    )


class JaxTrees:
    """Pytrees as jax has them, with all types that are registered with it."""

    nodes: frozenset[str] | None = None

    def flatten(self, tree: Any) -> tuple[list[Any], Any]:
        """Return the leaves of a tree and its treedef."""
        leaves, treedef = jax.tree_util.tree_flatten(tree)
        return leaves, treedef

    def paths(self, tree: Any) -> list[tuple[Any, ...]]:
        """Return the key path of each leaf."""
        pairs, _ = jax.tree_util.tree_flatten_with_path(tree)
        return [path for path, _ in pairs]

    def children(self, node: Any) -> list[tuple[str, Any]]:
        """Return the children of a node, and how the step to each is written."""
        inside: Callable[[Any], bool] = lambda child: child is not node  # noqa: E731
        pairs, _ = jax.tree_util.tree_flatten_with_path(node, inside)
        return [(str(step), child) for (step,), child in pairs]

    def make_treedef(self, node_data: tuple[type, Any] | None, children: Sequence[Any]) -> Any:
        """Return the treedef of a node, or of a leaf."""
        return private.make_treedef(node_data, children)


class JaxPaddedArrays:
    """See `runtime.backend.PaddedArrays`."""

    def aval_key(self, leaf: Any) -> Hashable | None:
        """Return what decides the aval of a leaf; for numpy arrays and numbers, x64 does too."""
        kind = type(leaf)
        if isinstance(leaf, jax.Array):
            return (kind, leaf.shape, leaf.dtype, getattr(leaf, "weak_type", False))
        if isinstance(leaf, np.ndarray | np.generic):
            return (kind, leaf.shape, leaf.dtype, jax.config.jax_enable_x64)
        return (kind, jax.config.jax_enable_x64) if kind in _NUMBERS else None

    def problem(self, leaf: Any) -> tuple[str, str, str] | None:
        """Return (expected, found, remedy) if the host cannot read a leaf, else None."""
        if not isinstance(leaf, jax.Array):
            return None
        if leaf.is_deleted():
            remedy = "It was donated to an earlier call; use that call's result instead."
            return "an array", "a deleted array", remedy
        if not leaf.is_fully_addressable:
            remedy = "Pad it before it is placed, to a size that was compiled."
            return "an array that is all in this process", str(leaf.sharding), remedy
        return None

    def pad(self, leaf: Any, enlarge: Callable[[Any], Any], _: Fills) -> Any:
        """Return a padded leaf: in its place if it is committed, else as a numpy array."""
        if not isinstance(leaf, jax.Array):
            return enlarge(np.asarray(leaf))
        array = enlarge(private.host_view(leaf))
        return private.put_like(array, leaf) if leaf.committed or leaf.weak_type else array

    def cut(self, array: Any, shape: tuple[int, ...], _: Fills) -> Any:
        """Return the first part of a result on each axis, copied to memory of its own."""
        kept = private.host_view(array)[tuple(map(slice, shape))]
        return private.put_like(kept, array)


# --- executables --------------------------------------------------------------------------------


class JaxExecutableLoader:
    """See `runtime.backend.ExecutableLoader`. Destinations are shardings here."""

    def __init__(self) -> None:
        self.register = private.register_custom_call
        self.custom_call_targets = private.custom_call_targets
        self.deserialize = private.deserialize
        self.physical = private.physical_shape
        self.put = private.put

    def constant_destinations(
        self, record: Record, loaded: Any, devices: tuple[Any, ...]
    ) -> Sequence[Any]:
        """Return the sharding of each constant of a record."""
        return constant_shardings(record.calling, loaded, devices)

    def executable(
        self, record: Record, loaded: Any, constants: tuple[Any, ...], placement: Placement
    ) -> JaxExecutable:
        """Return the executable of a record; AotbuildError if XLA shards it in another way."""
        calling, devices = record.calling, placement.devices
        leaves = leaf_shardings(record, devices)
        shardings = [*constant_shardings(calling, loaded, devices), *leaves]
        avals = [*(constant.aval for constant in calling.constants), *record.signature.leaves]
        pairs = list(zip(avals, shardings, strict=True))
        inputs = [pairs[index] for index in sorted(calling.kept)]
        outputs = list(zip(calling.outputs, output_shardings(calling, devices), strict=True))
        if calling.mesh and not private.has_shardings(loaded, inputs, outputs):
            msg = f"{record}: the executable is not sharded as its record says; rebuild the wheel"
            raise AotbuildError(msg)
        mesh_executable = private.mesh_executable(
            loaded, calling.name, devices, inputs, outputs, calling.kept, placement.committed
        )
        return JaxExecutable(record, mesh_executable, constants, tuple(leaves))


@dataclass(frozen=True)
class JaxExecutable:
    """A loaded record. It takes flat leaves in the order of the signature, and returns outputs."""

    record: Record
    mesh_executable: Any
    constants: tuple[Any, ...]
    shardings: tuple[Any, ...]

    def run(self, leaves: Sequence[Any], _: frozenset[int] = frozenset()) -> list[Any]:
        """Run it on leaves that fit. All outputs stay on the device."""
        pairs = zip(leaves, self.shardings, strict=True)
        placed = [private.spread(leaf, sharding) for leaf, sharding in pairs]
        with private.naming_odd_values(self.record.function):
            outputs: list[Any] = self.mesh_executable.unsafe_call(*self.constants, *placed)
        return outputs

    def fastpath_data(
        self, outputs: Sequence[Any], out_tree: Any, leaves: int, _: frozenset[int] = frozenset()
    ) -> Any:
        """Return what the C++ dispatch needs to run it without Python, or None."""
        return private.fastpath_data(
            self.mesh_executable, outputs, out_tree, self.constants, leaves
        )
