"""Reading and writing protocol buffers without a schema: fields by number.

The encoding is documented at https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

_VARINT, _BYTES = 0, 2
_FIXED = {1: 8, 5: 4}  # sizes in bytes
_WORD = (1 << 64) - 1
# In bytes: who reads an instruction of a program asks for one field after the other.
_SMALL = 1 << 14


class Malformed(ValueError):
    """The bytes are not a protocol buffer, or not of the expected shape; the message says how."""


class Field(NamedTuple):
    """A field of a message: its number, its value, and all its bytes."""

    number: int
    value: int | bytes
    whole: bytes

    @property
    def message(self) -> bytes:
        """The value of a bytes field; raises Malformed for a number."""
        if not isinstance(self.value, bytes):
            msg = f"field {self.number} holds a number, bytes were expected"
            raise Malformed(msg)
        return self.value


# The replacement of a field: other bytes, b"" to drop it, None to keep it.
Change = Callable[[Field], bytes | None]


def fields(data: bytes) -> Sequence[Field]:
    """Return the fields of a message in order; raises Malformed."""
    return _known_fields(data) if len(data) <= _SMALL else _fields(data)


def _fields(data: bytes) -> tuple[Field, ...]:
    found = []
    at, end = 0, len(data)
    while at < end:
        start = at
        tag, at = varint(data, at)
        kind = tag & 7
        value: int | bytes
        if kind == _VARINT:
            value, at = varint(data, at)
        else:
            if kind == _BYTES:
                size, at = varint(data, at)
            elif kind in _FIXED:
                size = _FIXED[kind]
            else:
                msg = f"field {tag >> 3} is of wire type {kind}"
                raise Malformed(msg)
            begin, at = at, at + size
            if at > end:
                msg = f"field {tag >> 3} goes on behind the end"
                raise Malformed(msg)
            value = data[begin:at]
        found.append(Field(tag >> 3, value, data[start:at]))
    return tuple(found)


_known_fields = lru_cache(1 << 16)(_fields)


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at an offset, and the offset after it."""
    if at < len(data) and data[at] < 128:  # as most numbers are
        return data[at], at + 1
    number = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7
    msg = "a number that does not end"
    raise Malformed(msg)


def number_of(data: bytes, number: int) -> int:
    """Return a number field; 0, the default of protocol buffers, if it is absent."""
    found = _last(data, number)
    if found is None:
        return 0
    if isinstance(found.value, bytes):
        msg = f"field {number} holds bytes, a number was expected"
        raise Malformed(msg)
    return found.value


def bytes_of(data: bytes, number: int) -> bytes:
    """Return a bytes field; b"" if it is absent."""
    found = _last(data, number)
    return b"" if found is None else found.message


def messages_of(data: bytes, number: int) -> list[bytes]:
    """Return the values of a repeated message field."""
    return [field.message for field in fields(data) if field.number == number]


def numbers_of(data: bytes, number: int) -> list[int]:
    """Return the values of a repeated number field, packed or not."""
    found: list[int] = []
    for field in fields(data):
        if field.number != number:
            continue
        if isinstance(field.value, int):
            found.append(field.value)
            continue
        at = 0
        while at < len(field.value):
            value, at = varint(field.value, at)
            found.append(value)
    return found


def changed(data: bytes, change: Change) -> bytes:
    """Return a message with changed fields."""
    parts = []
    for field in fields(data):
        other = change(field)
        parts.append(field.whole if other is None else other)
    return b"".join(parts)


def replaced(data: bytes, path: Sequence[int], value: bytes) -> bytes:
    """Return a message with another value for the bytes field at a path of field numbers.

    Raises Malformed if a message on the path has no such field, or several.
    """
    number, *rest = path
    if sum(field.number == number for field in fields(data)) != 1:
        msg = f"expected one field {number}"
        raise Malformed(msg)
    inner = replaced(bytes_of(data, number), rest, value) if rest else value
    return changed(
        data, lambda field: bytes_field(number, inner) if field.number == number else None
    )


def number_field(number: int, value: int) -> bytes:
    """Return an encoded number field; b"" for 0, which protocol buffers do not write."""
    return _encoded(number << 3 | _VARINT) + _encoded(value) if value else b""


def bytes_field(number: int, value: bytes) -> bytes:
    """Return an encoded bytes field."""
    return _encoded(number << 3 | _BYTES) + _encoded(len(value)) + value


def _encoded(number: int) -> bytes:
    number &= _WORD
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def _last(data: bytes, number: int) -> Field | None:
    for field in reversed(fields(data)):
        if field.number == number:
            return field
    return None
