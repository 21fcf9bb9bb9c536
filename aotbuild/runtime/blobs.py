"""Blobs and constants in memory: each read and checked once, by whoever needs it first."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

from aotbuild.errors import AotbuildError, DamagedBlob
from aotbuild.runtime.buffers import Mapper, aligned, is_aligned
from aotbuild.runtime.concurrency import Once, Worker
from aotbuild.runtime.source import Source, view_blob
from aotbuild.spec.aval import Aval
from aotbuild.spec.record import Blob, Constant
from aotbuild.spec.tensors import begin_of, read_tensors

# Reading ahead costs a thread, 0.1 ms; at 1 to 2 GB a second that is this much.
_WORTH_A_THREAD = 256 * 1024


class Blobs:
    """The blobs of one package that become constants.

    With `maps` they may be mappings of their files, which have to stay as they are. A view is kept
    until who reads ahead is done; what was made of it keeps its memory.
    """

    def __init__(self, source: Source, *, maps: bool = True) -> None:
        self._source = source
        self._mapper = Mapper(maps=maps)
        self._views: Once[memoryview] = Once()
        self._used: set[str] = set()

    def place(self, blob: Blob) -> str:
        """Return what names a blob in errors."""
        return f"{self._source.place}/{blob.path}"

    def view(self, blob: Blob) -> memoryview:
        """Return a blob from a multiple of 64 on; DamagedBlob unless it is the one that was built.

        Who has made of it what is kept says so by `used`.
        """
        return self._views.get(blob.sha256, lambda: view_blob(self._source, blob, self._mapper))

    def used(self, blob: Blob) -> None:
        """Say that a blob need not be read ahead any more."""
        self._used.add(blob.sha256)

    @contextmanager
    def ahead(self, blobs: Sequence[Blob]) -> Iterator[None]:
        """Read blobs in another thread while this one does something else, and needs them later.

        What fails there is tried again by who needs it, and raises there.
        """
        stopped = threading.Event()
        reader = self._reader(blobs, stopped)
        try:
            if reader:
                reader.start()
            yield
        finally:
            stopped.set()
            if reader:
                reader.wait()
            for blob in blobs:
                self._views.forget(blob.sha256)

    def clear(self) -> None:
        """Forget all of them."""
        self._views.clear()
        self._used.clear()

    def _reader(self, blobs: Sequence[Blob], stopped: threading.Event) -> Worker | None:
        """Return what would read what nobody has used yet; None if that is not worth it."""
        unused = [blob for blob in blobs if blob.sha256 not in self._used]
        if sum(blob.size for blob in unused) < _WORTH_A_THREAD:
            return None
        return Worker("aotbuild-blobs", lambda: self._read_all(unused, stopped))

    def _read_all(self, blobs: Sequence[Blob], stopped: threading.Event) -> None:
        for blob in blobs:
            if stopped.is_set():
                return
            if blob.sha256 not in self._used:
                with suppress(AotbuildError, MemoryError):
                    self.view(blob)


Physical = Callable[[Aval], tuple[tuple[int, ...], Any]]
Put = Callable[[Any, Aval, Any], Any]

TENSOR = "constant"


def read_constant(blobs: Blobs, constant: Constant, shape: tuple[int, ...], dtype: Any) -> Any:
    """Return a constant as a read-only numpy array of its physical shape and dtype.

    It begins at a multiple of 64 bytes. DamagedBlob if what is stored is not of that size.
    """
    import numpy as np

    data = blobs.view(constant.blob)
    size = math.prod(shape) * dtype.itemsize
    begin = begin_of(data, TENSOR, size)
    if begin is None:
        begin = _search(data, blobs.place(constant.blob), constant.aval, size)
    array = _aligned(np.frombuffer(data, np.uint8, offset=begin))
    array.flags.writeable = False
    return array.view(dtype).reshape(shape)


def _search(data: memoryview, place: str, aval: Aval, size: int) -> int:
    """Return where the tensor begins in a blob that somebody else wrote; DamagedBlob if none."""
    expected = f"one tensor {TENSOR!r} of {aval}"
    try:
        tensors = read_tensors(data)
    except ValueError as err:
        raise DamagedBlob(place, expected, f"no safetensors: {err}") from err
    if list(tensors) != [TENSOR] or tensors[TENSOR].end - tensors[TENSOR].begin != size:
        found = ", ".join(f"{name}: {item.dtype}{item.shape}" for name, item in tensors.items())
        raise DamagedBlob(place, expected, found or "no tensor")
    return tensors[TENSOR].begin


def _aligned(array: Any) -> Any:
    """Return bytes as they are, or moved: other libraries put tensors anywhere."""
    if is_aligned(array):
        return array
    moved = aligned(array.size)
    moved[:] = array
    return moved


class Constants:
    """The constants of one package, each read once, and put once into each place.

    `physical` and `put` are those of the door's engine.
    """

    def __init__(self, blobs: Blobs, physical: Physical, put: Put) -> None:
        self._blobs = blobs
        self._physical = physical
        self._put_there = put
        self._placed: Once[Any] = Once()

    def ahead(self, constants: Sequence[Constant]) -> AbstractContextManager[None]:
        """Read constants in another thread while this one does something else, and puts them."""
        return self._blobs.ahead([constant.blob for constant in constants])

    def put(self, constants: Sequence[Constant], places: Sequence[Hashable]) -> tuple[Any, ...]:
        """Return constants, each in its place."""
        pairs = list(zip(constants, places, strict=True))
        # A thread that reads ahead begins with the first.
        placed = [self._place(constant, place) for constant, place in reversed(pairs)]
        return tuple(reversed(placed))

    def clear(self) -> None:
        """Forget all of them."""
        self._placed.clear()
        self._blobs.clear()

    def _place(self, constant: Constant, place: Hashable) -> Any:
        key = (constant.blob.sha256, constant.aval, place)
        return self._placed.get(key, lambda: self._put(constant, place))

    def _put(self, constant: Constant, place: Hashable) -> Any:
        shape, dtype = self._physical(constant.aval)
        array = read_constant(self._blobs, constant, shape, dtype)
        placed = self._put_there(array, constant.aval, place)
        self._blobs.used(constant.blob)
        return placed
