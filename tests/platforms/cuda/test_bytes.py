"""Looking into the bytes of CUDA executables, without any: records are made here."""

from __future__ import annotations

import pytest

from aotbuild.platforms.cuda.executables import _SIGNATURE, NotReadable, readable, records

_BLOCK = 1 << 16


def varint(value: int) -> bytes:
    low = value & 127
    return bytes([low]) if value < 128 else bytes([low | 128]) + varint(value >> 7)


def chunk(values: bytes, whole: int, compression: int = 0) -> bytes:
    """Return a chunk of one record, with a table of sizes that nobody reads."""
    data = bytes([compression]) + varint(1) + b"\x05" + values
    counts = ord("r") | 1 << 8
    parts = (0, len(data), 0, counts, whole)
    return b"".join(part.to_bytes(8, "little") for part in parts) + data


def record_file(*chunks: bytes) -> bytes:
    """Return records as Riegeli lays them out: a header at the start of each block of 64 KiB."""
    rest = b"".join(chunks)
    first = _SIGNATURE + bytes(8) + ord("s").to_bytes(8, "little") + bytes(8)
    first += bytes(64 - len(first))
    out = bytearray(first)
    while rest:
        if len(out) % _BLOCK == 0:
            out += bytes(24)
        room = _BLOCK - len(out) % _BLOCK
        out += rest[:room]
        rest = rest[room:]
    return bytes(out)


def test_plain_across_blocks() -> None:
    body = bytes(range(256)) * 600
    data = b"before" + record_file(chunk(body, len(body))) + b"after"
    assert readable(data) == data + b"\0" + body


def test_snappy() -> None:
    # A literal of 3, a copy of 6 from 3 back (one-byte offset), one of 4 from 9 back (two bytes).
    packed = bytes([2 << 2]) + b"abc" + bytes([(6 - 4) << 2 | 1, 3, (4 - 1) << 2 | 2, 9, 0])
    values = varint(13) + varint(13) + packed
    data = record_file(chunk(values, 13, ord("s")))
    assert readable(data).endswith(b"\0" + b"abcabcabc" + b"abca")
    # What is packed may end where a name does not: sm_100 of sm_100a.
    assert records(data) == b"abcabcabcabca"


def test_long_literal() -> None:
    body = b"x" * 1000
    packed = bytes([61 << 2]) + (999).to_bytes(2, "little") + body
    data = record_file(chunk(varint(1000) * 2 + packed, 1000, ord("s")))
    assert readable(data).endswith(b"\0" + body)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x7fELF", "no records of Riegeli"),
        (record_file(chunk(b"abc", 3, ord("z"))), "compression 'z'"),
        (record_file(chunk(b"abc", 4)), "a chunk of 3 bytes that says 4"),
        (record_file(chunk(b"\x04\x04\x01\x09", 4, ord("s"))), "a copy from before the beginning"),
        (record_file(chunk(b"\x09\x09\x20ab", 9, ord("s"))), "they end within a chunk"),
    ],
)
def test_refused(data: bytes, message: str) -> None:
    with pytest.raises(NotReadable, match=message):
        readable(data)
