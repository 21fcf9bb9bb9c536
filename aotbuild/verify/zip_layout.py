"""The byte layout of a zip file: each byte belongs to one member, and both headers agree.

Installers read a zip differently if its local headers, its central directory and its end record
disagree. Without a contradiction all of them read the same files. The format is specified in
PKWARE's APPNOTE.TXT 6.3.10, sections 4.3 and 4.5.3.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from aotbuild.verify.zip_directory import (
    MAGIC,
    MAX_32,
    directory_start,
    name_of,
    unpack,
    zip64_field,
)

# The fields of a local header after its four magic bytes.
_LOCAL = struct.Struct("<5H3I2H")
_DESCRIPTOR_FLAG = 0x8
_CHUNK = 1 << 20
# What zlib calls deflated data without a header of its own.
_RAW = -15
# Why a member cannot be unpacked, by `unpacked` or by zipfile.
UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError, OSError)
_METHODS = {zipfile.ZIP_STORED: "stored", zipfile.ZIP_DEFLATED: "deflated"}
# Bits that change how a member is read: encrypted, patched, strongly encrypted, masked headers.
_REFUSED_FLAGS = 0x1 | 0x20 | 0x40 | 0x2000


@dataclass(frozen=True)
class Limits:
    """Limits that no ordinary wheel exceeds; sizes are in bytes, uncompressed.

    Executables compress by a factor of about 3, zeros by 1,000; small members may be zeros.
    """

    members: int = 100_000
    total: int = 16 << 30
    ratio: int = 100
    ratio_above: int = 256 << 20


def layout_problems(file: IO[bytes], archive: zipfile.ZipFile) -> Iterator[str]:
    """Yield every gap or overlap between the members of the file."""
    start, end_problem = directory_start(file, archive)
    if end_problem:
        yield end_problem
        return
    position = 0
    for info in sorted(archive.infolist(), key=lambda info: info.header_offset):
        where = f"{info.filename!r}"
        if info.header_offset != position:
            kind = "hidden bytes" if info.header_offset > position else "an overlap"
            yield f"{kind} before {where}: expected offset {position}, found {info.header_offset}"
            return
        local, problem = _read_local(file, info)
        if local is None:
            yield f"{where}: {problem}"
            return
        yield from (f"{where}: {text}" for text in _disagreements(info, local))
        position = local.data_offset + info.compress_size
        if info.flag_bits & _DESCRIPTOR_FLAG:
            position, problem = _skip_descriptor(file, info, position)
            if problem:
                yield f"{where}: {problem}"
                return
    if position != start:
        yield f"hidden bytes before the central directory: expected {position}, found {start}"


def member_problems(archive: zipfile.ZipFile, limits: Limits) -> Iterator[str]:
    """Yield members that are encrypted, use an unusual method, or are far too large unpacked."""
    infos = archive.infolist()
    if len(infos) > limits.members:
        yield f"{len(infos)} members, expected at most {limits.members}"
    total = sum(info.file_size for info in infos)
    if total > limits.total:
        yield f"{total} bytes when unpacked, expected at most {limits.total}"
    for info in infos:
        if info.flag_bits & _REFUSED_FLAGS:
            yield f"{info.filename!r} is encrypted or patched (flags {info.flag_bits:#x})"
        if info.compress_type not in _METHODS:
            yield f"{info.filename!r} has compression method {info.compress_type}, not 0 or 8"
        ratio = info.file_size / max(info.compress_size, 1)
        if info.compress_type == zipfile.ZIP_STORED and info.file_size != info.compress_size:
            yield f"{info.filename!r} is stored, but in {info.compress_size} bytes"
        elif info.file_size > limits.ratio_above and ratio > limits.ratio:
            yield f"{info.filename!r} unpacks to {ratio:.0f} times its size ({info.file_size})"


def unpacked(file: IO[bytes], info: zipfile.ZipInfo) -> Iterator[bytes]:
    """Yield the bytes of a member in the right layout; at most 1 MiB is in memory at a time.

    An error of UNREADABLE, if they are not what the headers say, or if the compressed data ends
    before or after its size: zipfile ignores what is left, and readers of streams do not.
    """
    local, problem = _read_local(file, info)
    if local is None:
        raise ValueError(problem)
    crc = size = 0
    for data in _inflated(file, local.data_offset, info):
        crc, size = zlib.crc32(data, crc), size + len(data)
        if size > info.file_size:
            break
        yield data
    if (size, crc) != (info.file_size, info.CRC):
        at_least = "at least " if size > info.file_size else ""
        msg = f"expected {info.file_size} bytes with CRC {info.CRC:08x}"
        msg = f"{msg}, found {at_least}{size} with {crc:08x}"
        raise ValueError(msg)


def data_problems(file: IO[bytes], archive: zipfile.ZipFile) -> Iterator[str]:
    """Yield every member, in the right layout, that does not unpack to what its headers say."""
    for info in archive.infolist():
        try:
            for _ in unpacked(file, info):
                pass
        except UNREADABLE as err:
            yield f"{info.filename!r} cannot be read: {err}"


def _inflated(file: IO[bytes], position: int, info: zipfile.ZipInfo) -> Iterator[bytes]:
    inflate = zlib.decompressobj(_RAW) if info.compress_type == zipfile.ZIP_DEFLATED else None
    end = position + info.compress_size
    data = b""
    while position < end or inflate is not None:
        if not data and position < end:
            file.seek(position)
            data = file.read(min(_CHUNK, end - position))
            position += len(data)
            if not data:
                msg = "the file ends before its compressed data"
                raise EOFError(msg)
        if inflate is None:
            yield data
            data = b""
            continue
        yield (found := inflate.decompress(data, _CHUNK))
        data = inflate.unconsumed_tail
        if inflate.eof:
            hidden = len(inflate.unused_data) + end - position
            if hidden:
                msg = f"{hidden} hidden bytes after its compressed data"
                raise ValueError(msg)
            return
        if not (found or data) and position == end:
            msg = "its compressed data has no end"
            raise ValueError(msg)


@dataclass(frozen=True)
class _Local:
    """A local header. Of each size it has what the header says, and what its zip64 field says."""

    name: bytes
    flags: int
    method: int
    crc: int
    compressed: tuple[int, ...]
    size: tuple[int, ...]
    data_offset: int


def _read_local(file: IO[bytes], info: zipfile.ZipInfo) -> tuple[_Local | None, str]:
    fields = unpack(_LOCAL, b"PK\x03\x04", file, info.header_offset)
    if fields is None:
        return None, "no local header where the central directory points"
    _, flags, method, _, _, crc, compressed, size, name_length, extra_length = fields
    name, extra = file.read(name_length), file.read(extra_length)
    try:
        field = zip64_field(extra)
    except ValueError as err:
        return None, str(err)
    if len(field or b"") < 16 and (field is not None or MAX_32 in (compressed, size)):
        return None, "its local header names zip64 sizes and has none"
    # A local header has both sizes, in this order.
    wide = (None, None) if field is None else struct.unpack_from("<2Q", field)
    sizes, all_compressed = (
        tuple(value for value in pair if value not in (None, MAX_32))
        for pair in zip((size, compressed), wide, strict=True)
    )
    offset = info.header_offset + MAGIC + _LOCAL.size + name_length + extra_length
    return _Local(name, flags, method, crc, all_compressed, sizes, offset), ""


def _disagreements(info: zipfile.ZipInfo, local: _Local) -> Iterator[str]:
    pairs: list[tuple[str, object, object]] = [
        ("name", name_of(info), local.name),
        ("flags", info.flag_bits, local.flags),
        ("method", info.compress_type, local.method),
        ("CRC", info.CRC, local.crc),
        *(("compressed size", info.compress_size, found) for found in local.compressed),
        *(("size", info.file_size, found) for found in local.size),
    ]
    # With a data descriptor, which comes after the data, the header may leave its numbers out.
    is_later = bool(info.flag_bits & _DESCRIPTOR_FLAG)
    for what, central, found in pairs:
        is_left_out = is_later and found == 0 and what in ("CRC", "compressed size", "size")
        if central != found and not is_left_out:
            yield f"{what} is {central!r} in the central directory, {found!r} in the local header"


def _skip_descriptor(file: IO[bytes], info: zipfile.ZipInfo, position: int) -> tuple[int, str]:
    """Return the end of the data descriptor, which has four forms."""
    file.seek(position)
    data = file.read(24)
    signature = b"PK\x07\x08" if data.startswith(b"PK\x07\x08") else b""
    # The long form first: for an empty member the short form is a part of it.
    for form in ("<I2Q", "<3I"):
        expected = signature + _packed(form, info.CRC, info.compress_size, info.file_size)
        if data.startswith(expected):
            return position + len(expected), ""
    return position, "its data descriptor is not what the central directory says"


def _packed(form: str, *values: int) -> bytes:
    return struct.pack(form, *values) if max(values) <= MAX_32 or "Q" in form else b"\0" * 25
