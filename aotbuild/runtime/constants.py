"""Constants: closed-over arrays that a package stores once for all its executables."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from aotbuild.errors import DamagedBlob
from aotbuild.runtime.blobs import Blobs
from aotbuild.runtime.buffers import aligned, is_aligned
from aotbuild.runtime.once import Once
from aotbuild.spec.aval import Aval
from aotbuild.spec.record import Constant
from aotbuild.spec.tensors import begin_of, read_tensors

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
