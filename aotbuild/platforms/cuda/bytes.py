"""Look into the bytes of a CUDA executable: they are compressed, so a plain search finds little.

XLA keeps the executable as records of Riegeli, in chunks that are compressed with Snappy, inside a
protobuf. See google/riegeli doc/riegeli_records_file_format.md and google/snappy
format_description.txt.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from aotbuild.format.protobuf import Malformed, varint

# How a file of Riegeli begins: the header of the first block, and that of an empty first chunk.
_SIGNATURE = bytes.fromhex("83af70d10d884a3f0000000000000000400000000000000091bac23c9287e1a9")
_BLOCK, _BLOCK_HEADER = 1 << 16, 24
_CHUNK = struct.Struct("<8xQ8xQQ")
_RECORDS, _SNAPPY, _PLAIN = ord("r"), ord("s"), 0


class NotReadable(ValueError):
    """The bytes are not in the form that is known here; the text says what was found."""


def readable(data: bytes) -> bytes:
    """Return the bytes, followed by what is compressed in them; NotReadable for another form."""
    return data + b"\0" + records(data)


def records(data: bytes) -> bytes:
    """Return what is compressed in the bytes, and nothing of them as they are; else NotReadable.

    Compressed text may stand there cut short: `sm_100a` as `sm_100`.
    """
    start = data.find(_SIGNATURE)
    if start < 0:
        msg = "no records of Riegeli"
        raise NotReadable(msg)
    try:
        return b"\0".join(_chunks(_without_block_headers(data[start:])))
    except (IndexError, struct.error, Malformed) as err:
        msg = "they end within a chunk"
        raise NotReadable(msg) from err


def _without_block_headers(data: bytes) -> bytes:
    starts = range(0, len(data), _BLOCK)
    return b"".join(data[at + _BLOCK_HEADER : at + _BLOCK] for at in starts)


def _chunks(data: bytes) -> Iterator[bytes]:
    """Yield the decompressed records of every chunk; the rest of the protobuf follows the last."""
    at = _CHUNK.size
    while at + _CHUNK.size <= len(data):
        size, kind_and_count, whole = _CHUNK.unpack_from(data, at)
        kind, count = kind_and_count & 0xFF, kind_and_count >> 8
        at += _CHUNK.size
        if kind != _RECORDS:
            return
        yield _records(data[at : at + size], whole)
        at += max(size, count - _CHUNK.size)


def _records(chunk: bytes, whole: int) -> bytes:
    compression = chunk[0]
    size, at = varint(chunk, 1)
    values = chunk[at + size :]
    if compression == _PLAIN:
        found = values
    elif compression == _SNAPPY:
        # The length stands there twice: Riegeli's, then Snappy's own.
        found = _unsnappy(values[varint(values, 0)[1] :])
    else:
        msg = f"compression {chr(compression)!r}"
        raise NotReadable(msg)
    if len(found) != whole:
        msg = f"a chunk of {len(found)} bytes that says {whole}"
        raise NotReadable(msg)
    return found


def _unsnappy(data: bytes) -> bytes:
    size, at = varint(data, 0)
    out = bytearray()
    while len(out) < size:
        tag = data[at]
        at += 1
        if tag & 3 == 0:
            length, at = _literal_length(data, tag >> 2, at)
            out += data[at : at + length]
            at += length
            continue
        if tag & 3 == 1:
            length, offset = (tag >> 2 & 7) + 4, (tag >> 5) << 8 | data[at]
            at += 1
        else:
            width = 2 if tag & 3 == 2 else 4
            length, offset = (tag >> 2) + 1, int.from_bytes(data[at : at + width], "little")
            at += width
        if not 0 < offset <= len(out):
            msg = "a copy from before the beginning"
            raise NotReadable(msg)
        _copy(out, offset, length)
    return bytes(out)


def _literal_length(data: bytes, coded: int, at: int) -> tuple[int, int]:
    if coded < 60:
        return coded + 1, at
    width = coded - 59
    return int.from_bytes(data[at : at + width], "little") + 1, at + width


def _copy(out: bytearray, offset: int, length: int) -> None:
    """Repeat what is `offset` bytes back; the copy may overlap what it makes."""
    start = len(out) - offset
    piece = bytes(out[start : start + length])
    out += (piece * (length // len(piece) + 1))[:length]
