"""The last step of the jax door: bytes become jax's own executables, constants jax arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aotbuild.errors import AotbuildError
from aotbuild.frozen import dataclass
from aotbuild.runtime.backends.jax import private as jax_private
from aotbuild.runtime.backends.jax.placement import (
    Placement,
    constant_shardings,
    leaf_shardings,
    output_shardings,
)
from aotbuild.runtime.warmup import Examples
from aotbuild.spec.aval import Aval
from aotbuild.spec.record import Record


@dataclass(frozen=True)
class Executable:
    """A loaded record: takes flat leaves and returns flat outputs."""

    record: Record
    mesh_executable: Any
    constants: tuple[Any, ...]
    shardings: tuple[Any, ...]

    def run(self, leaves: Sequence[Any]) -> list[Any]:
        """Run it; leaves are in the order of the signature, and fit it."""
        pairs = zip(leaves, self.shardings, strict=True)
        placed = [jax_private.spread(leaf, sharding) for leaf, sharding in pairs]
        outputs: list[Any] = self.mesh_executable.unsafe_call(*self.constants, *placed)
        return outputs

    def run_on_zeros(self) -> list[Any]:
        """Run it on zeros, and wait until it has."""
        return jax_private.wait(self.run(self._zeros()))

    def examples(self) -> Examples:
        """Return what makes zeros of each kind of array that a call may give."""
        leaves = self.record.signature.leaves
        loose = [None] * len(leaves)
        return {
            "numpy": lambda: list(map(jax_private.numpy_example, leaves)),
            "loose": lambda: list(map(jax_private.array_example, leaves, loose)),
            "placed": lambda: list(map(jax_private.array_example, leaves, self.shardings)),
        }

    def _zeros(self) -> list[Any]:
        pairs = zip(self.record.signature.leaves, self.shardings, strict=True)
        return [jax_private.put(jax_private.zeros(aval), aval, place) for aval, place in pairs]

    def fastpath_data(self, outputs: Sequence[Any], out_tree: Any, leaves: int) -> Any:
        """Return what the C++ dispatch needs to run it without Python, or None."""
        return jax_private.fastpath_data(
            self.mesh_executable, outputs, out_tree, self.constants, leaves
        )


class JaxEngine:
    """What the loader does with jax. See `runtime.loader.Engine`."""

    def initialize_lapack(self) -> None:
        """Bind jaxlib's LAPACK kernels; an executable that calls one before this segfaults."""
        jax_private.initialize_lapack()

    def deserialize(self, data: bytes, devices: tuple[Any, ...]) -> Any:
        """Return PJRT bytes, loaded onto devices in that order."""
        return jax_private.deserialize(data, devices)

    def constant_places(
        self, record: Record, loaded: Any, devices: tuple[Any, ...]
    ) -> Sequence[Any]:
        """Return the sharding of each constant of a record."""
        return constant_shardings(record.calling, loaded, devices)

    def physical(self, aval: Aval) -> tuple[tuple[int, ...], Any]:
        """Return (shape, numpy dtype) of the array that an aval is stored as."""
        return jax_private.physical_shape(aval)

    def put(self, array: Any, aval: Aval, place: Any) -> Any:
        """Return a numpy array as a jax array with a sharding."""
        return jax_private.put(array, aval, place)

    def executable(
        self, record: Record, loaded: Any, constants: tuple[Any, ...], placement: Placement
    ) -> Executable:
        """Return what runs a record, made of what was loaded for it."""
        calling, devices = record.calling, placement.devices
        leaves = leaf_shardings(record, devices)
        shardings = [*constant_shardings(calling, loaded, devices), *leaves]
        avals = [*(constant.aval for constant in calling.constants), *record.signature.leaves]
        pairs = list(zip(avals, shardings, strict=True))
        inputs = [pairs[index] for index in sorted(calling.kept)]
        outputs = list(zip(calling.outputs, output_shardings(calling, devices), strict=True))
        if calling.mesh and not jax_private.has_shardings(loaded, inputs, outputs):
            msg = f"{record}: the executable is not sharded as its record says; rebuild the wheel"
            raise AotbuildError(msg)
        mesh_executable = jax_private.mesh_executable(
            loaded, calling.name, devices, inputs, outputs, calling.kept, placement.committed
        )
        return Executable(record, mesh_executable, constants, tuple(leaves))
