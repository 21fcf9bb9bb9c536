"""Constants: arrays in blobs of their own, read once and put once into each place."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

from aotbuild.errors import AotbuildError, DamagedBlob
from aotbuild.format.aval import Aval
from aotbuild.format.record import Blob, Constant
from aotbuild.format.tensors import begin_of, read_tensors
from aotbuild.runtime.buffers import Mapper, aligned, is_aligned
from aotbuild.runtime.concurrency import SingleFlight
from aotbuild.runtime.source import Source, view_blob

Physical = Callable[[Aval], tuple[tuple[int, ...], Any]]
Put = Callable[[Any, Aval, Any], Any]

TENSOR = "constant"
# Starting a thread takes 0.1 ms. Reading at 1 to 2 GB/s, this many bytes take as long.
_WORTH_A_THREAD = 256 * 1024


class Blobs:
    """Views of the blobs of one package that become constants, each read once.

    With `maps`, a view may be a mapping of its file, which must not change afterwards. Views are
    dropped when reading ahead ends; constants made of them keep the memory alive.
    """

    def __init__(self, source: Source, *, maps: bool = True) -> None:
        self._source = source
        self._mapper = Mapper(maps=maps)
        self._views: SingleFlight[memoryview] = SingleFlight()
        self._used: set[str] = set()

    def place(self, blob: Blob) -> str:
        """Return what names a blob in errors."""
        return f"{self._source.place}/{blob.path}"

    def view(self, blob: Blob) -> memoryview:
        """Return a checked blob, aligned to 64; call `used` once its constant is made."""
        return self._views.get(blob.sha256, lambda: view_blob(self._source, blob, self._mapper))

    def used(self, blob: Blob) -> None:
        """Record that a blob need not be read ahead any more."""
        self._used.add(blob.sha256)

    @contextmanager
    def read_ahead(self, blobs: Sequence[Blob]) -> Iterator[None]:
        """Read blobs in another thread while the block runs.

        An error in that thread is dropped: `view` tries again and raises it.
        """
        stopped = threading.Event()
        reader = self._make_reader(blobs, stopped)
        try:
            if reader:
                reader.start()
            yield
        finally:
            stopped.set()
            if reader:
                reader.join()
            for blob in blobs:
                self._views.forget(blob.sha256)

    def clear(self) -> None:
        """Drop all views."""
        self._views.clear()
        self._used.clear()

    def _make_reader(
        self, blobs: Sequence[Blob], stopped: threading.Event
    ) -> threading.Thread | None:
        """Return a thread that reads the unused blobs; None if they are too small for one."""
        unused = [blob for blob in blobs if blob.sha256 not in self._used]
        if sum(blob.size for blob in unused) < _WORTH_A_THREAD:
            return None
        return threading.Thread(target=self._read_all, args=(unused, stopped), daemon=False)

    def _read_all(self, blobs: Sequence[Blob], stopped: threading.Event) -> None:
        for blob in blobs:
            if stopped.is_set():
                return
            if blob.sha256 not in self._used:
                with suppress(AotbuildError, MemoryError):
                    self.view(blob)


class Constants:
    """The constants of one package, each read once, and put once into each place.

    `physical` and `put` are those of the backend's `ExecutableLoader`.
    """

    def __init__(self, blobs: Blobs, physical: Physical, put: Put) -> None:
        self._blobs = blobs
        self._physical = physical
        self._put_array = put
        self._placed: SingleFlight[Any] = SingleFlight()

    def read_ahead(self, constants: Sequence[Constant]) -> AbstractContextManager[None]:
        """Read constants in another thread while the block runs and puts them."""
        return self._blobs.read_ahead([constant.blob for constant in constants])

    def put(self, constants: Sequence[Constant], places: Sequence[Hashable]) -> tuple[Any, ...]:
        """Return the constants, each in its place."""
        pairs = list(zip(constants, places, strict=True))
        # From the end: the thread that reads ahead begins with the first.
        placed = [self._place(constant, place) for constant, place in reversed(pairs)]
        return tuple(reversed(placed))

    def clear(self) -> None:
        """Drop all of them."""
        self._placed.clear()
        self._blobs.clear()

    def _place(self, constant: Constant, place: Hashable) -> Any:
        key = (constant.blob.sha256, constant.aval, place)
        return self._placed.get(key, lambda: self._put(constant, place))

    def _put(self, constant: Constant, place: Hashable) -> Any:
        shape, dtype = self._physical(constant.aval)
        array = read_constant(self._blobs, constant, shape, dtype)
        placed = self._put_array(array, constant.aval, place)
        self._blobs.used(constant.blob)
        return placed


def read_constant(blobs: Blobs, constant: Constant, shape: tuple[int, ...], dtype: Any) -> Any:
    """Return a constant as a read-only numpy array of its physical shape and dtype.

    It is aligned to 64 bytes. DamagedBlob if the stored tensor is of another size.
    """
    import numpy as np

    data = blobs.view(constant.blob)
    size = math.prod(shape) * dtype.itemsize
    begin = begin_of(data, TENSOR, size)
    if begin is None:
        begin = _find_tensor(data, blobs.place(constant.blob), constant.aval, size)
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
