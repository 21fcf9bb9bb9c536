"""Bytes become jaxlib's executables, which are called with numpy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from aotbuild.errors import AotbuildError
from aotbuild.format.aval import Aval
from aotbuild.format.record import Record
from aotbuild.runtime.numpy import private
from aotbuild.runtime.numpy.arrays import DeviceArray, buffer_of
from aotbuild.runtime.numpy.trees import NumpyTrees

# The result of the first call of a dispatch, which only tells it how to run the executable.
_NOT_RUN = object()
# All of jax's caches may be cleared between two attempts.
_ATTEMPTS = 3


@dataclass(frozen=True)
class NumpyPlacement:
    """The one device that a call runs on, as a tuple."""

    devices: tuple[Any, ...]


class NumpyExecutableLoader:
    """See `runtime.backend.ExecutableLoader`. Destinations are devices here."""

    def __init__(self, trees: NumpyTrees) -> None:
        self._trees = trees
        self.register = private.register_custom_call
        self.custom_call_targets = private.custom_call_targets

    def deserialize(self, data: bytes, devices: tuple[Any, ...]) -> Any:
        """Return the XLA executable of PJRT bytes, loaded onto one device."""
        return private.deserialize(data, devices[0])

    def constant_destinations(
        self, record: Record, _: Any, devices: tuple[Any, ...]
    ) -> Sequence[Any]:
        """Return the device of each constant of a record."""
        return [devices[0]] * len(record.calling.constants)

    def physical(self, aval: Aval) -> tuple[tuple[int, ...], Any]:
        """Return (shape, numpy dtype) of the array that an aval is stored as."""
        return aval.shape, dtype_of(aval)

    def put(self, array: Any, _: Aval, destination: Any) -> Any:
        """Return a numpy array as a constant on a device, without a copy if aligned to 64 bytes."""
        return private.put(array, destination)

    def executable(
        self, record: Record, loaded: Any, constants: tuple[Any, ...], placement: NumpyPlacement
    ) -> NumpyExecutable:
        """Return the executable of a record."""
        return NumpyExecutable(self._trees, record, loaded, constants, placement.devices[0])


class NumpyExecutable:
    """A loaded record. It takes flat leaves in the order of the signature, and returns outputs."""

    def __init__(
        self, trees: NumpyTrees, record: Record, loaded: Any, constants: Any, device: Any
    ) -> None:
        self.record = record
        self._trees = trees
        self._loaded = loaded
        self._constants = constants
        self._device = device
        self._dtypes = [dtype_of(aval) for aval in record.signature.leaves]
        outputs = record.calling.outputs
        self._outputs = [(aval.shape, dtype_of(aval)) for aval in outputs]
        self._dispatches: dict[frozenset[int], Any] = {}

    def run(self, leaves: Sequence[Any], staying: frozenset[int] = frozenset()) -> list[Any]:
        """Run it on leaves that fit; the outputs at the indices `staying` stay on the device."""
        pairs = zip(leaves, self._dtypes, strict=True)
        arrays = [
            buffer_of(leaf) if isinstance(leaf, DeviceArray) else np.asarray(leaf, dtype)
            for leaf, dtype in pairs
        ]
        dispatch = self._dispatches.get(staying) or self._make_dispatch(staying)
        for _ in range(_ATTEMPTS):
            outputs: Any = dispatch(*arrays)
            if outputs is not _NOT_RUN:
                self._check(outputs)
                return list(outputs)
        return self._refuse(arrays)

    def fastpath_data(
        self, _: Sequence[Any], out_tree: Any, leaves: int, staying: frozenset[int] = frozenset()
    ) -> Any:
        """Return what the C++ dispatch needs to run it without Python."""
        calling, trees = self.record.calling, self._trees
        kept = frozenset(calling.kept)
        return private.fastpath_data(
            self._loaded,
            self._device,
            self._outputs,
            trees.with_arrays(out_tree, calling.outputs, self._device, staying),
            self._constants,
            [index in kept for index in range(len(self._constants) + leaves)],
        )

    def _make_dispatch(self, staying: frozenset[int]) -> Any:
        _, out_tree = self._trees.flatten([0] * len(self._outputs))
        data = self.fastpath_data((), out_tree, len(self._dtypes), staying)

        def miss(*_: Any) -> tuple[Any, Any, bool]:
            return _NOT_RUN, data, False

        name, registry = self.record.calling.name, self._trees.registry
        source = lambda *_: _NOT_RUN  # noqa: E731 - for jax.disable_jit
        dispatch = private.make_dispatch(name, source, miss, [], [], registry)
        self._dispatches[staying] = dispatch
        return dispatch

    def _check(self, outputs: Sequence[Any]) -> None:
        """Raise AotbuildError if numpy cannot read a result; later results have the same layout.

        An execution that fails raises in the call itself, before its results are made.
        """
        for index, (output, (_, dtype)) in enumerate(zip(outputs, self._outputs, strict=True)):
            if output.dtype != dtype:
                found = "an array that numpy cannot read: it has a memory layout of its own"
                msg = f"{self.record}: result {index}\n  expected {dtype}\n  found    {found}"
                raise AotbuildError(msg)

    def _refuse(self, arrays: Sequence[Any]) -> NoReturn:
        """Raise the reason for which jaxlib refuses an array, such as jax.transfer_guard."""
        found = "no reason"
        try:
            for array in arrays:
                if isinstance(array, np.ndarray):
                    private.put(array, self._device)
        except Exception as err:  # noqa: BLE001 - jaxlib raises RuntimeError, ValueError and its own
            found = f"{type(err).__name__}: {err}"
        msg = f"{self.record}: jaxlib does not run it\n  found    {found}"
        raise AotbuildError(msg)


def dtype_of(aval: Aval) -> Any:
    """Return the numpy dtype of an aval; AotbuildError for typed PRNG keys."""
    if aval.dtype.startswith("key<"):
        msg = (
            f"{aval}\n  expected an array that numpy has\n  found    a typed PRNG key\n"
            "Compile a function that takes and returns jax.random.key_data(key), or load the "
            'package with arrays="jax".'
        )
        raise AotbuildError(msg)
    try:
        return np.dtype(aval.dtype)
    except TypeError:
        import ml_dtypes  # noqa: F401 - registers the names of its types with numpy

        return np.dtype(aval.dtype)
