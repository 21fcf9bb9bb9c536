"""Reading and writing protocol buffers without a schema: fields by number.

The encoding is documented at https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_WORD = (1 << 64) - 1


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


def fields(data: bytes) -> Iterator[Field]:
    """Yield the fields of a message in order; raises Malformed."""
    at, end = 0, len(data)
    while at < end:
        start = at
        # Most numbers have one byte, and programs have millions of fields.
        tag = data[at]
        at += 1
        if tag > 127:
            tag, at = varint(data, start)
        value, at = _value(data, at, tag)
        yield Field(tag >> 3, value, data[start:at])


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at an offset, and the offset after it."""
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


def _value(data: bytes, at: int, tag: int) -> tuple[int | bytes, int]:
    kind = tag & 7
    is_short = at < len(data) and data[at] < 128
    if kind == _VARINT:
        return (data[at], at + 1) if is_short else varint(data, at)
    if kind == _BYTES:
        size, at = (data[at], at + 1) if is_short else varint(data, at)
    elif kind in (_FIXED64, _FIXED32):
        size = 8 if kind == _FIXED64 else 4
    else:
        msg = f"field {tag >> 3} is of wire type {kind}"
        raise Malformed(msg)
    if at + size > len(data):
        msg = f"field {tag >> 3} goes on behind the end"
        raise Malformed(msg)
    return data[at : at + size], at + size


def _last(data: bytes, number: int) -> Field | None:
    found = None
    for field in fields(data):
        if field.number == number:
            found = field
    return found
