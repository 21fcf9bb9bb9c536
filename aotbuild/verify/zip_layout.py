"""The byte layout of a zip file: each byte belongs to one member, and both headers agree.

Installers read a zip differently if its local headers, its central directory and its end record
disagree. Without a contradiction all of them read the same files. The format is specified in
PKWARE's APPNOTE.TXT 6.3.10, sections 4.3 and 4.5.3.
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

# The fields of each header after its four magic bytes.
_LOCAL = struct.Struct("<5H3I2H")
# Of a central header only the lengths of its name, extra fields and comment are read here.
_CENTRAL = struct.Struct("<24x3H12x")
_END = struct.Struct("<4H2IH")
_END_64 = struct.Struct("<Q2H2I4Q")
_LOCATOR_64 = struct.Struct("<IQI")
_MAGIC = 4
_DESCRIPTOR_FLAG = 0x8
_MAX_32 = 0xFFFFFFFF
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
    size = file.seek(0, 2)
    start, end_problem = _directory_start(file, size, archive)
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


def _directory_start(
    file: IO[bytes], size: int, archive: zipfile.ZipFile
) -> tuple[int, str | None]:
    """Return the offset of the central directory, which must end where the file ends."""
    end = size - _MAGIC - _END.size
    fields = _unpack(_END, b"PK\x05\x06", file, end)
    if fields is None or fields[-1] != 0:
        return 0, "bytes (or an archive comment) after the end of the central directory"
    disk, first_disk, count_here, count, length, start, _ = fields
    if _MAX_32 in (length, start) or count == 0xFFFF:
        found = _directory_64(file, end)
        if found is None:
            return 0, "the zip64 end of the central directory is not where it must be"
        count, length, start, end = found
    members = len(archive.infolist())
    if disk or first_disk or count != members or count_here not in (count, 0xFFFF):
        return 0, f"the end counts {count} members, the central directory has {members}"
    if start + length != end:
        return 0, f"bytes before the archive or its end: expected {end - length}, found {start}"
    return start, _directory_problem(file, start, end, members)


def _directory_problem(file: IO[bytes], position: int, end: int, members: int) -> str | None:
    """Return the problem of the central directory, or None."""
    for number in range(members):
        fields = _unpack(_CENTRAL, b"PK\x01\x02", file, position)
        if fields is None:
            return f"no header of member {number} in the central directory"
        if fields[-1]:
            return f"member {number} has a comment"
        position += _MAGIC + _CENTRAL.size + sum(fields[-3:])
    return None if position == end else f"the central directory ends at {position}, not {end}"


def _directory_64(file: IO[bytes], end: int) -> tuple[int, int, int, int] | None:
    locator_at = end - _MAGIC - _LOCATOR_64.size
    place = locator_at - _MAGIC - _END_64.size
    locator = _unpack(_LOCATOR_64, b"PK\x06\x07", file, locator_at)
    fields = _unpack(_END_64, b"PK\x06\x06", file, place)
    if locator is None or fields is None or locator[1] != place:
        return None
    count, length, start = fields[-3:]
    return count, length, start, place


@dataclass(frozen=True)
class _Local:
    name: bytes
    flags: int
    method: int
    crc: int
    compressed: int
    size: int
    data_offset: int


def _read_local(file: IO[bytes], info: zipfile.ZipInfo) -> tuple[_Local | None, str]:
    fields = _unpack(_LOCAL, b"PK\x03\x04", file, info.header_offset)
    if fields is None:
        return None, "no local header where the central directory points"
    _, flags, method, _, _, crc, compressed, size, name_length, extra_length = fields
    name, extra = file.read(name_length), file.read(extra_length)
    if _MAX_32 in (compressed, size):
        sizes = _sizes_64(extra)
        if sizes is None:
            return None, "its local header names zip64 sizes and has none"
        size, compressed = sizes
    offset = info.header_offset + _MAGIC + _LOCAL.size + name_length + extra_length
    return _Local(name, flags, method, crc, compressed, size, offset), ""


def _sizes_64(extra: bytes) -> tuple[int, int] | None:
    """Return (size, compressed size) of the zip64 extra field; a local header has both."""
    while len(extra) >= 4:
        kind, length = struct.unpack_from("<2H", extra)
        if kind == 1 and length >= 16 and len(extra) >= 20:
            size, compressed = struct.unpack_from("<2Q", extra, 4)
            return size, compressed
        extra = extra[4 + length :]
    return None


def _disagreements(info: zipfile.ZipInfo, local: _Local) -> Iterator[str]:
    encoding = "utf-8" if info.flag_bits & 0x800 else "cp437"
    pairs: list[tuple[str, object, object]] = [
        ("name", info.orig_filename.encode(encoding, "replace"), local.name),
        ("flags", info.flag_bits, local.flags),
        ("method", info.compress_type, local.method),
    ]
    if not info.flag_bits & _DESCRIPTOR_FLAG:
        pairs += [
            ("CRC", info.CRC, local.crc),
            ("compressed size", info.compress_size, local.compressed),
            ("size", info.file_size, local.size),
        ]
    for what, central, found in pairs:
        if central != found:
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
    return struct.pack(form, *values) if max(values) <= _MAX_32 or "Q" in form else b"\0" * 25


def _unpack(
    form: struct.Struct, magic: bytes, file: IO[bytes], offset: int
) -> tuple[int, ...] | None:
    """Return the fields after the four magic bytes, or None if the magic is missing."""
    if offset < 0:
        return None
    file.seek(offset)
    data = file.read(4 + form.size)
    if len(data) < 4 + form.size or not data.startswith(magic):
        return None
    return form.unpack_from(data, 4)
