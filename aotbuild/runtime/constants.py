"""Constants: closed-over arrays that a package stores once for all its executables."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from aotbuild.errors import AotbuildError, DamagedBlob
from aotbuild.runtime.buffers import Mapper, aligned, is_aligned
from aotbuild.runtime.once import Once
from aotbuild.runtime.source import Source, view_blob
from aotbuild.spec.aval import Aval
from aotbuild.spec.record import Constant
from aotbuild.spec.tensors import read_tensors

Physical = Callable[[Aval], tuple[tuple[int, ...], Any]]
Put = Callable[[Any, Aval, Any], Any]

TENSOR = "constant"
# Reading ahead costs a thread, 0.1 ms; at 1 to 2 GB a second that is this much.
_WORTH_A_THREAD = 256 * 1024


def read_constant(
    source: Source,
    constant: Constant,
    shape: tuple[int, ...],
    dtype: Any,
    mapper: Mapper | None = None,
) -> Any:
    """Return a constant as a read-only numpy array of its physical shape and dtype.

    It begins at a multiple of 64 bytes. Without a mapper it is a copy of the file. DamagedBlob if
    what is stored is not of that size.
    """
    import numpy as np

    data = view_blob(source, constant.blob, mapper or Mapper(maps=False))
    place = f"{source.place}/{constant.blob.path}"
    expected = f"one tensor {TENSOR!r} of {constant.aval}"
    try:
        tensors = read_tensors(data)
    except ValueError as err:
        raise DamagedBlob(place, expected, f"no safetensors: {err}") from err
    size = math.prod(shape) * dtype.itemsize
    if list(tensors) != [TENSOR] or tensors[TENSOR].end - tensors[TENSOR].begin != size:
        found = ", ".join(f"{name}: {item.dtype}{item.shape}" for name, item in tensors.items())
        raise DamagedBlob(place, expected, found or "no tensor")
    array = _aligned(np.frombuffer(data, np.uint8)[tensors[TENSOR].begin :])
    array.flags.writeable = False
    return array.view(dtype).reshape(shape)


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

    def __init__(self, source: Source, physical: Physical, put: Put, *, maps: bool) -> None:
        self._source = source
        self._physical = physical
        self._put_there = put
        self._mapper = Mapper(maps=maps)
        self._arrays: Once[Any] = Once()
        self._placed: Once[Any] = Once()
        self._used: set[str] = set()

    @contextmanager
    def ahead(self, constants: Sequence[Constant]) -> Iterator[None]:
        """Read constants in another thread while this one does something else, and puts them.

        What fails there is tried again by who needs it, and raises there.
        """
        stopped = threading.Event()
        reader = self._reader(constants, stopped)
        try:
            yield
        finally:
            stopped.set()
            if reader:
                reader.join()
            for constant in constants:
                self._arrays.forget(_key(constant))

    def put(self, constants: Sequence[Constant], places: Sequence[Hashable]) -> tuple[Any, ...]:
        """Return constants, each in its place."""
        pairs = list(zip(constants, places, strict=True))
        # A thread that reads ahead begins with the first.
        placed = [self._place(constant, place) for constant, place in reversed(pairs)]
        return tuple(reversed(placed))

    def __len__(self) -> int:
        return len(self._placed)

    def clear(self) -> None:
        """Forget all of them."""
        for cache in (self._arrays, self._placed, self._used):
            cache.clear()

    def _reader(
        self, constants: Sequence[Constant], stopped: threading.Event
    ) -> threading.Thread | None:
        """Return a thread that reads what nobody has used yet; None if that is not worth it."""
        unused = [item for item in constants if item.blob.sha256 not in self._used]
        if sum(item.blob.size for item in unused) < _WORTH_A_THREAD:
            return None
        todo = (unused, stopped)
        thread = threading.Thread(target=self._read_all, name="aotbuild-constants", args=todo)
        thread.start()
        return thread

    def _read_all(self, constants: Sequence[Constant], stopped: threading.Event) -> None:
        for constant in constants:
            if stopped.is_set():
                return
            if constant.blob.sha256 not in self._used:
                with suppress(AotbuildError, MemoryError):
                    self._array(constant)

    def _place(self, constant: Constant, place: Hashable) -> Any:
        return self._placed.get((_key(constant), place), lambda: self._put(constant, place))

    def _put(self, constant: Constant, place: Hashable) -> Any:
        placed = self._put_there(self._array(constant), constant.aval, place)
        self._used.add(constant.blob.sha256)
        return placed

    def _array(self, constant: Constant) -> Any:
        return self._arrays.get(_key(constant), lambda: self._read(constant))

    def _read(self, constant: Constant) -> Any:
        shape, dtype = self._physical(constant.aval)
        return read_constant(self._source, constant, shape, dtype, self._mapper)


def _key(constant: Constant) -> Hashable:
    return constant.blob.sha256, constant.aval
