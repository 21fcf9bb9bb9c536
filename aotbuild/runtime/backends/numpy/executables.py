"""The last step of the numpy door: bytes become jaxlib's executables, called with numpy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from aotbuild.errors import AotbuildError
from aotbuild.frozen import dataclass
from aotbuild.runtime.backends.numpy import private as jaxlib_private
from aotbuild.runtime.backends.numpy.trees import NumpyTrees
from aotbuild.runtime.buffers import zeros
from aotbuild.runtime.warmup import Examples
from aotbuild.spec.aval import Aval
from aotbuild.spec.record import Record

_KEY = "key<"
# In bytes behind a multiple of 64: the header that glibc keeps before what malloc returns.
_AS_NUMPY = 16


@dataclass(frozen=True)
class NumpyPlacement:
    """The one device that a call runs on."""

    devices: tuple[Any, ...]


class NumpyEngine:
    """What the loader does without jax. See `runtime.loader.Engine`."""

    def __init__(self, trees: NumpyTrees) -> None:
        self._trees = trees

    def initialize_lapack(self) -> None:
        """Bind jaxlib's LAPACK kernels; an executable that calls one before this segfaults."""
        jaxlib_private.initialize_lapack()

    def deserialize(self, data: bytes, devices: tuple[Any, ...]) -> Any:
        """Return PJRT bytes, loaded onto one device."""
        return jaxlib_private.deserialize(data, devices[0])

    def constant_places(self, record: Record, _: Any, devices: tuple[Any, ...]) -> Sequence[Any]:
        """Return the device of each constant of a record."""
        return [devices[0]] * len(record.calling.constants)

    def physical(self, aval: Aval) -> tuple[tuple[int, ...], Any]:
        """Return (shape, numpy dtype) of the array that an aval is stored as."""
        return aval.shape, dtype_of(aval)

    def put(self, array: Any, _: Aval, place: Any) -> Any:
        """Return a numpy array as a constant on a device; one aligned to 64 bytes is not copied."""
        return jaxlib_private.put(array, place)

    def executable(
        self, record: Record, loaded: Any, constants: tuple[Any, ...], placement: NumpyPlacement
    ) -> NumpyExecutable:
        """Return what runs a record, made of what was loaded for it."""
        return NumpyExecutable(self._trees, record, loaded, constants, placement.devices[0])


class NumpyExecutable:
    """A loaded record: takes flat leaves and returns flat outputs."""

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
        self._dispatch: Any = None

    def run(self, leaves: Sequence[Any]) -> list[Any]:
        """Run it; leaves are in the order of the signature, and fit it."""
        pairs = zip(leaves, self._dtypes, strict=True)
        arrays = [np.asarray(leaf, dtype) for leaf, dtype in pairs]
        dispatch = self._dispatch or self._make_dispatch()
        for _ in range(_TRIES):
            outputs: Any = dispatch(*arrays)
            if outputs is not _NOT_YET:
                self._check(outputs)
                return list(outputs)
        return self._refuse(arrays)

    def _check(self, outputs: Sequence[Any]) -> None:
        """Raise AotbuildError if numpy could not read a result; later ones are laid out alike.

        An execution that fails raises at the call itself: its results are never made.
        """
        for index, (output, (_, dtype)) in enumerate(zip(outputs, self._outputs, strict=True)):
            if output.dtype != dtype:
                found = "an array that numpy cannot read: it has a memory layout of its own"
                msg = f"{self.record}: result {index}\n  expected {dtype}\n  found    {found}"
                raise AotbuildError(msg)

    def run_on_zeros(self) -> list[Any]:
        """Run it on zeros that begin where numpy's own arrays do.

        XLA copies those, into memory that the first such call would be the first to touch.
        """
        return self.run(self._zeros(apart=_AS_NUMPY))

    def examples(self) -> Examples:
        """Return what makes zeros as a call may give them."""
        return {"numpy": self._zeros}

    def _zeros(self, apart: int = 0) -> list[Any]:
        """Return zeros as a call gives them: a number where it is weakly typed."""
        pairs = zip(self.record.signature.leaves, self._dtypes, strict=True)
        arrays = [(aval.weak_type, zeros(aval.shape, dtype, apart=apart)) for aval, dtype in pairs]
        # Only a number can be weakly typed here: a weakly typed array comes out of jax alone.
        return [array.item() if is_weak and not array.shape else array for is_weak, array in arrays]

    def fastpath_data(self, _: Sequence[Any], out_tree: Any, leaves: int) -> Any:
        """Return what the C++ dispatch needs to run it without Python."""
        calling, trees = self.record.calling, self._trees
        kept = frozenset(calling.kept)
        return jaxlib_private.fastpath_data(
            self._loaded,
            self._device,
            self._outputs,
            trees.with_arrays(out_tree, calling.outputs, self._device),
            self._constants,
            [index in kept for index in range(len(self._constants) + leaves)],
        )

    def _make_dispatch(self) -> Any:
        _, out_tree = self._trees.flatten([0] * len(self._outputs))
        data = self.fastpath_data((), out_tree, len(self._dtypes))

        def miss(*_: Any) -> tuple[Any, Any, bool]:
            return _NOT_YET, data, False

        name, registry = self.record.calling.name, self._trees.registry
        source = lambda *_: _NOT_YET  # noqa: E731 - under jax.disable_jit
        self._dispatch = jaxlib_private.make_dispatch(name, source, miss, [], [], registry)
        return self._dispatch

    def _refuse(self, arrays: Sequence[Any]) -> NoReturn:
        """Raise what jaxlib has against an array, such as jax.transfer_guard."""
        found = "no reason"
        try:
            for array in arrays:
                jaxlib_private.put(array, self._device)
        except Exception as err:  # noqa: BLE001 - jaxlib raises RuntimeError, ValueError and its own
            found = f"{type(err).__name__}: {err}"
        msg = f"{self.record}: jaxlib does not run it\n  found    {found}"
        raise AotbuildError(msg)


# What the first call of an executable gives, which only says how to run it.
_NOT_YET = object()
# Somebody may clear all of jax's caches between two of them.
_TRIES = 3


def dtype_of(aval: Aval) -> Any:
    """Return the numpy dtype of an aval; AotbuildError for typed PRNG keys."""
    if aval.dtype.startswith(_KEY):
        msg = (
            f"{aval}\n  expected an array that numpy has\n  found    a typed PRNG key\n"
            "Compile a function that takes and returns jax.random.key_data(key), or load the "
            'package with arrays="jax".'
        )
        raise AotbuildError(msg)
    try:
        return np.dtype(aval.dtype)
    except TypeError:
        import ml_dtypes  # noqa: F401 - tells numpy the names of its types

        return np.dtype(aval.dtype)
