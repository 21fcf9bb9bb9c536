"""Bytes become jax's own executables, and constants jax arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aotbuild.errors import AotbuildError
from aotbuild.format.record import Record
from aotbuild.runtime.jax import private
from aotbuild.runtime.jax.placement import (
    Placement,
    constant_shardings,
    leaf_shardings,
    output_shardings,
)

if TYPE_CHECKING:
    from aotbuild.runtime.backend import Trees


class JaxExecutableLoader:
    """See `runtime.backend.ExecutableLoader`. Places are shardings here."""

    def __init__(self, trees: Trees, count: Callable[[str], None]) -> None:
        """Make a loader; `count` is called with the name of a counter."""
        self._trees, self._count = trees, count
        self.register = private.register_custom_call
        self.deserialize = private.deserialize
        self.physical = private.physical_shape
        self.put = private.put

    def bind(self, record: Record) -> Sequence[Callable[..., Any]]:
        """Return what an executable calls back; NoExecutable if something cannot be called."""
        from aotbuild.runtime.jax.callbacks import bind  # few records have any

        return bind(record, self._trees, self._count)

    def constant_places(
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
            *(loaded, calling.name, devices, inputs, outputs, calling.kept, placement.committed),
            private.effects_of(calling),
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
        """Return what the C++ dispatch needs to run it without Python, or None.

        Python sees each call that has effects, as under jit: only it passes tokens on.
        """
        if any(callback.kind != "pure" for callback in self.record.calling.callbacks):
            return None
        return private.fastpath_data(
            self.mesh_executable, outputs, out_tree, self.constants, leaves
        )
