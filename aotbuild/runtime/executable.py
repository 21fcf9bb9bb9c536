"""Executables: from a record to something that runs, each loaded once and shared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aotbuild.errors import AotbuildError
from aotbuild.runtime import jax_private
from aotbuild.runtime.constants import load_constant
from aotbuild.runtime.once import Once
from aotbuild.runtime.order import misplaced
from aotbuild.runtime.placement import (
    Placement,
    constant_shardings,
    leaf_shardings,
    output_shardings,
)
from aotbuild.runtime.select import Verdict
from aotbuild.runtime.source import Source, read_blob
from aotbuild.runtime.stats import Stats
from aotbuild.spec.record import Constant, Record


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

    def fastpath_data(self, outputs: Sequence[Any], out_tree: Any, leaves: int) -> Any:
        """Return what the C++ dispatch needs to run it without Python, or None."""
        return jax_private.fastpath_data(
            self.mesh_executable, outputs, out_tree, self.constants, leaves
        )


class Loader:
    """Loads the executables and constants of one package, each once for each tuple of devices."""

    def __init__(self, source: Source, stats: Stats) -> None:
        self._source = source
        self._stats = stats
        self._loaded: Once[Any] = Once()
        self._constants: Once[Any] = Once()
        self._executables: Once[Executable] = Once()

    def load(self, verdict: Verdict, placement: Placement) -> Executable:
        """Return the executable of a record that fits, on the devices of a placement."""
        if not verdict.fits:
            msg = f"refused: {verdict}"
            raise AotbuildError(msg)
        record = verdict.record
        key = (record.function, record.signature.key(), record.blob.sha256, placement)
        return self._executables.get(key, lambda: self._make(record, placement))

    def load_bytes(self, record: Record, devices: tuple[Any, ...]) -> bool:
        """Load the bytes and constants of a record onto devices; return whether that was new."""
        is_new = (record.blob.sha256, devices) not in self._loaded
        self._load_constants(record, self._xla_executable(record, devices), devices)
        return is_new

    def clear(self) -> None:
        """Forget everything that was loaded."""
        for cache in (self._loaded, self._constants, self._executables):
            cache.clear()

    def _make(self, record: Record, placement: Placement) -> Executable:
        calling, devices = record.calling, placement.devices
        xla_executable = self._xla_executable(record, devices)
        leaves = leaf_shardings(record, devices)
        shardings = [*constant_shardings(calling, xla_executable, devices), *leaves]
        avals = [*(constant.aval for constant in calling.constants), *record.signature.leaves]
        pairs = list(zip(avals, shardings, strict=True))
        inputs = [pairs[index] for index in sorted(calling.kept)]
        outputs = list(zip(calling.outputs, output_shardings(calling, devices), strict=True))
        if calling.mesh and not jax_private.has_shardings(xla_executable, inputs, outputs):
            msg = f"{record}: the executable is not sharded as its record says; rebuild the wheel"
            raise AotbuildError(msg)
        mesh_executable = jax_private.mesh_executable(
            xla_executable, calling.name, devices, inputs, outputs, calling.kept,
            placement.committed,
        )  # fmt: skip
        constants = self._load_constants(record, xla_executable, devices)
        return Executable(record, mesh_executable, constants, tuple(leaves))

    def _xla_executable(self, record: Record, devices: tuple[Any, ...]) -> Any:
        key = (record.blob.sha256, devices)
        return self._loaded.get(key, lambda: self._deserialize(record, devices))

    def _deserialize(self, record: Record, devices: tuple[Any, ...]) -> Any:
        """Devices and digest first, then what the custom calls need, then native code."""
        problem = misplaced(record.requires, devices)
        if problem:
            msg = f"{record}: {problem}\n{problem.remedy}"
            raise AotbuildError(msg)
        with self._stats.loading():
            data = read_blob(self._source, record.blob)
            if any(call.provider == "lapack" for call in record.requires.custom_calls):
                jax_private.initialize_lapack()
            try:
                return jax_private.deserialize(data, devices)
            except Exception as err:  # jaxlib raises RuntimeError, ValueError and its own
                msg = (
                    f"{record}: jaxlib could not load the executable\n"
                    f"  found    {type(err).__name__}: {err}\n"
                    "Rebuild the wheel with the jaxlib that is installed."
                )
                raise AotbuildError(msg) from err

    def _load_constants(
        self, record: Record, xla_executable: Any, devices: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        shardings = constant_shardings(record.calling, xla_executable, devices)
        pairs = zip(record.calling.constants, shardings, strict=True)
        return tuple(self._constant(constant, sharding) for constant, sharding in pairs)

    def _constant(self, constant: Constant, sharding: Any) -> Any:
        key = (constant.blob.sha256, constant.aval, sharding)
        return self._constants.get(key, lambda: load_constant(self._source, constant, sharding))
