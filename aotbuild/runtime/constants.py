"""Constants: arrays in blobs of their own, read once and put once into each destination."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from aotbuild.errors import AotbuildError, DamagedBlob
from aotbuild.format.aval import Aval
from aotbuild.format.record import Constant
from aotbuild.format.tensors import begin_of, read_tensors
from aotbuild.runtime.checked_blobs import Mapper, Source, aligned, is_aligned, view_blob
from aotbuild.runtime.concurrency import SingleFlight

Physical = Callable[[Aval], tuple[tuple[int, ...], Any]]
Put = Callable[[Any, Aval, Any], Any]

TENSOR = "constant"
# Starting a thread takes 0.1 ms. Reading at 1 to 2 GB/s, this many bytes take as long.
_WORTH_A_THREAD = 256 * 1024


class Constants:
    """The constants of one package, each read once, and put once into each destination.

    `physical` and `put` are those of the backend's `ExecutableLoader`. Views of blobs, which may
    be mapped files, are dropped when reading ahead ends; constants keep the memory alive.
    """

    def __init__(self, source: Source, physical: Physical, put: Put) -> None:
        self._source = source
        self._mapper = Mapper()
        self._physical = physical
        self._put_array = put
        self._views: SingleFlight[memoryview] = SingleFlight()
        self._placed: SingleFlight[Any] = SingleFlight()
        self._used: set[str] = set()

    @contextmanager
    def read_ahead(self, constants: Sequence[Constant]) -> Iterator[None]:
        """Read constants in another thread while the block runs and puts them.

        An error in that thread is dropped: `put` reads again and raises it. Small ones need no
        thread.
        """
        unused = [each for each in constants if each.blob.sha256 not in self._used]
        stopped = threading.Event()
        reader = threading.Thread(target=self._read_all, args=(unused, stopped), daemon=False)
        is_worth_it = sum(each.blob.size for each in unused) >= _WORTH_A_THREAD
        try:
            if is_worth_it:
                reader.start()
            yield
        finally:
            stopped.set()
            if is_worth_it:
                reader.join()
            for each in constants:
                self._views.forget(each.blob.sha256)

    def put(
        self, constants: Sequence[Constant], destinations: Sequence[Hashable]
    ) -> tuple[Any, ...]:
        """Return the constants, each in its destination."""
        pairs = list(zip(constants, destinations, strict=True))
        # From the end: the thread that reads ahead begins with the first.
        placed = [self._put(constant, where) for constant, where in reversed(pairs)]
        return tuple(reversed(placed))

    def _put(self, constant: Constant, destination: Hashable) -> Any:
        def make() -> Any:
            shape, dtype = self._physical(constant.aval)
            array = _array(self._view(constant), self._source, constant, shape, dtype)
            placed = self._put_array(array, constant.aval, destination)
            self._used.add(constant.blob.sha256)
            return placed

        return self._placed.get((constant.blob.sha256, constant.aval, destination), make)

    def _view(self, constant: Constant) -> memoryview:
        blob = constant.blob
        return self._views.get(blob.sha256, lambda: view_blob(self._source, blob, self._mapper))

    def _read_all(self, constants: Sequence[Constant], stopped: threading.Event) -> None:
        for constant in constants:
            if stopped.is_set():
                return
            if constant.blob.sha256 not in self._used:
                with suppress(AotbuildError, MemoryError):
                    self._view(constant)


def read_constant(
    source: Source, mapper: Mapper, constant: Constant, shape: tuple[int, ...], dtype: Any
) -> Any:
    """Return a constant as a read-only numpy array of its physical shape and dtype.

    It is aligned to 64 bytes. DamagedBlob if the stored tensor is of another size.
    """
    return _array(view_blob(source, constant.blob, mapper), source, constant, shape, dtype)


def _array(
    data: memoryview, source: Source, constant: Constant, shape: tuple[int, ...], dtype: Any
) -> Any:
    import numpy as np

    size = math.prod(shape) * dtype.itemsize
    begin = begin_of(data, TENSOR, size)
    if begin is None:
        begin = _find_tensor(data, source.path_of(constant.blob.path), constant.aval, size)
    array = np.frombuffer(data, np.uint8, offset=begin)
    if not is_aligned(array):  # other writers of safetensors put tensors anywhere
        stored, array = array, aligned(array.size)
        array[:] = stored
    array.flags.writeable = False
    return array.view(dtype).reshape(shape)


def _find_tensor(data: memoryview, place: str, aval: Aval, size: int) -> int:
    """Return where the tensor begins in a blob of another writer; DamagedBlob if it has none."""
    expected = f"one tensor {TENSOR!r} of {aval}"
    try:
        tensors = read_tensors(data)
    except ValueError as err:
        raise DamagedBlob(place, expected, f"no safetensors: {err}") from err
    if list(tensors) != [TENSOR] or tensors[TENSOR].end - tensors[TENSOR].begin != size:
        found = ", ".join(f"{name}: {item.dtype}{item.shape}" for name, item in tensors.items())
        raise DamagedBlob(place, expected, found or "no tensor")
    return tensors[TENSOR].begin
