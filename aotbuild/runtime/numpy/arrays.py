"""Arrays of jaxlib as numpy arrays, arrays that stay on their device, and both as arguments."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from aotbuild.errors import InvalidArgument
from aotbuild.format.dtypes import DTYPES
from aotbuild.format.target import HOST
from aotbuild.platforms.base import client_part, platform_of
from aotbuild.runtime.binding import Call
from aotbuild.runtime.numpy import private

if TYPE_CHECKING:
    from aotbuild.format.padding import Fills

# A platform, and the number of its device in this process; None for the host.
Where: TypeAlias = tuple[str, int] | None


class DeviceArray:
    """An array that stays on its device between calls, as `place` and `keeping` return it.

    A call takes it like a numpy array, without a copy. `numpy.asarray(array)` reads it. On a CPU
    that is a view where numpy knows the dtype: XLA knows of it too, so a call that the array is
    donated to leaves its memory alone.

    Threads may read it while others donate or delete it: they get its numbers, or ValueError.
    """

    __slots__ = ("_buffer", "_is_deleted")

    def __init__(self, _buffer: Any) -> None:
        self._buffer = _buffer
        self._is_deleted = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each axis."""
        shape: tuple[int, ...] = self._buffer.aval.shape
        return shape

    @property
    def dtype(self) -> Any:
        """The numpy dtype."""
        return self._buffer.aval.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes that a numpy array of this shape and dtype takes."""
        return self.size * int(self.dtype.itemsize)

    @property
    def device(self) -> str:
        """The name of its device, as `Library.on` takes it."""
        device = device_of(self)
        return f"{platform_of(device)}:{device.local_hardware_id}"

    def is_deleted(self) -> bool:
        """Return whether it was donated to a call, or deleted."""
        return self._is_deleted or bool(self._buffer.is_deleted())

    def delete(self) -> None:
        """Free its memory now, or when nobody reads it; it cannot be used any more."""
        # XLA ends the process for an array that is freed in the middle of being read. First say so,
        # then look: either the reader sees it, or this sees the reader, who then frees it.
        self._is_deleted = True
        self._free_if_unread()

    def _free_if_unread(self) -> None:
        if not any(each is self for each in [*_readings.values()]):
            self._buffer.delete()

    @contextmanager
    def _being_read(self) -> Iterator[None]:
        _readings[token := object()] = self
        try:
            yield
        finally:
            del _readings[token]
            if self._is_deleted:
                self._free_if_unread()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        with self._being_read():
            if self.is_deleted():
                raise self._gone()
            try:
                array = self._read()
            except (RuntimeError, ValueError, BufferError) as err:
                if self.is_deleted():  # by another thread
                    raise self._gone() from err
                raise
        if dtype is not None and dtype != array.dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    def _read(self) -> Any:
        where = where_of(device_of(self))
        if where is None and is_plain(self.dtype):
            return read(self._buffer, self.shape, self.dtype, where)
        # XLA does not know of a view, and would write into memory that is donated.
        with private.kept_from_donation(self._buffer):
            array = read(self._buffer, self.shape, self.dtype, where)
            if where is None:  # else it is a copy already
                array = array.copy()
        if self.is_deleted():  # a call may have written into what was not kept
            raise self._gone()
        return array

    def _gone(self) -> ValueError:
        msg = f"{self!r} was donated to a call, or deleted; use that call's result instead"
        return ValueError(msg)

    def __len__(self) -> int:
        if not self.shape:
            msg = "len() of an array without axes"
            raise TypeError(msg)
        return self.shape[0]

    def __repr__(self) -> str:
        gone = ", deleted" if self.is_deleted() else ""
        return f"<aotbuild.DeviceArray {self.dtype}{list(self.shape)} on {self.device}{gone}>"

    def __reduce__(self) -> Any:
        msg = f"{self!r} cannot be pickled or copied; numpy.asarray(array) can"
        raise TypeError(msg)


class PaddedArray(DeviceArray):
    """The result of a padded call that stays on its device with the padding, which nobody sees.

    C++ does not know the type, so no call takes the padding for content. A call that is padded to
    the same size with the same values takes the buffer as it is; all others take a copy of `shape`.
    """

    __slots__ = ("_shape", "fills")

    def __init__(self, _buffer: Any, shape: tuple[int, ...], fills: Fills) -> None:
        super().__init__(_buffer)
        self._shape, self.fills = shape, fills

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each axis, without padding."""
        return self._shape

    def whole(self) -> DeviceArray:
        """Return it with the padding."""
        return DeviceArray(self._buffer)

    def _read(self) -> Any:
        return np.asarray(self.whole())[tuple(map(slice, self._shape))]


def kept_padded(array: DeviceArray, shape: tuple[int, ...], fills: Fills) -> DeviceArray | None:
    """Return a new result with its padding filled in place, None where that cannot be.

    Nobody else has it, and its memory is XLA's own: a call has just made it.
    """
    if where_of(device_of(array)) is not None or is_packed(array.dtype):
        return None
    from aotbuild.runtime.padding import fill  # few functions are padded

    size = array.size * array.dtype.itemsize
    memory = np.asarray(_Memory(array._buffer, size, read_only=False))
    try:
        fill(memory.view(array.dtype).reshape(array.shape), fills)
    except (ValueError, OverflowError):  # a value that the dtype does not have
        return None
    return PaddedArray(array._buffer, shape, fills)


# The arrays that threads read now, once for each reading.
_readings: dict[object, DeviceArray] = {}


def buffer_of(array: DeviceArray) -> Any:
    """Return jaxlib's array, of the shape that the caller sees."""
    if isinstance(array, PaddedArray):
        array = put(np.asarray(array).copy(), device_of(array))
    return array._buffer


def device_of(array: DeviceArray) -> Any:
    """Return the device of an array."""
    return private.device_of(array._buffer)


def put(array: Any, device: Any) -> DeviceArray:
    """Return a numpy array on a device."""
    return DeviceArray(private.put(array, device))


def where_of(device: Any) -> Where:
    """Return where the memory of a device is."""
    platform = platform_of(device)
    return None if platform == HOST else (platform, device.local_hardware_id)


def is_plain(dtype: Any) -> bool:
    """Return whether the buffer protocol knows a dtype."""
    return bool(dtype.isbuiltin == 1)


def is_packed(dtype: Any) -> bool:
    """Return whether XLA packs several elements of a dtype into a byte; numpy uses one each."""
    return str(dtype) in DTYPES and DTYPES[str(dtype)].bits < 8


class _Memory:
    """Memory that numpy can view; the view keeps the array alive."""

    def __init__(self, array: Any, count: int, *, read_only: bool = True) -> None:
        self.owner = array
        self.__array_interface__ = {
            "data": (array.unsafe_buffer_pointer(), read_only),
            "shape": (count,),
            "typestr": "|u1",
            "version": 3,
        }


def read(array: Any, shape: tuple[int, ...], dtype: Any, where: Where) -> Any:
    """Return jaxlib's array as a read-only numpy array.

    RuntimeError or ValueError if it is deleted. Another thread must not donate or delete it
    meanwhile, unless it is on a CPU and numpy knows its dtype.
    """
    if where is None and is_plain(dtype):
        found = np.asarray(array)  # by the buffer protocol: XLA knows of the view
        if found.dtype != dtype:  # an array of one object: there is no buffer any more
            msg = "the array is deleted"
            raise ValueError(msg)
        return found
    array.block_until_ready()
    # XLA packs several elements of dtypes that the buffer protocol lacks into one byte.
    count, bits = math.prod(shape), DTYPES[str(dtype)].bits
    size = -(-count * bits // 8)
    if where is None:
        raw = np.asarray(_Memory(array, size))
    else:
        platform, ordinal = where
        raw = client_part(platform).copy(array.unsafe_buffer_pointer(), size, ordinal)
    if bits < 8:
        raw = _unpacked(raw, 8 // bits, count)
    raw.flags.writeable = False
    return raw.view(dtype).reshape(shape)


def _unpacked(raw: Any, per_byte: int, count: int) -> Any:
    """Return packed elements as one byte each; the lowest bits of a byte are its first element."""
    bits = 8 // per_byte
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return ((raw[:, None] >> shifts) & ((1 << bits) - 1)).reshape(-1)[:count]


# --- arguments ----------------------------------------------------------------------------------


def is_used_in_place(array: Any, dtype: Any) -> bool:
    """Return whether XLA:CPU uses a numpy array where it is."""
    from aotbuild.runtime.checked_blobs import (
        is_aligned,  # calls with small arrays alone do not ask
    )

    is_as_asked = array.dtype == dtype and array.flags.c_contiguous
    return bool(is_as_asked and (is_aligned(array) or not array.size))


def first_device(leaves: Sequence[Any]) -> Any:
    """Return the device of the first leaf that is on one; None if there is none."""
    return next((device_of(leaf) for leaf in leaves if isinstance(leaf, DeviceArray)), None)


def check_devices(call: Call, device: Any, paths: Callable[[], Sequence[str]]) -> None:
    """Raise InvalidArgument if an array is deleted, or on another device than the call."""
    for index, leaf in enumerate(call.leaves):
        if not isinstance(leaf, DeviceArray):
            continue
        if leaf.is_deleted():
            found = "an array that was donated to an earlier call, or deleted"
            raise _refusal(call, paths()[index], "an array", found, "Use that call's result.")
        if device_of(leaf) != device:
            name = f"{platform_of(device)}:{device.local_hardware_id}"
            remedy = f"Put all arguments on one device: library.on({name!r}).place(tree)."
            raise _refusal(call, paths()[index], f"an array on {name}", repr(leaf), remedy)


def _refusal(call: Call, path: str, expected: str, found: str, remedy: str) -> InvalidArgument:
    return InvalidArgument(call.bound.function.name, path, expected, found, remedy)
