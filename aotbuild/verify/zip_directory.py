"""The end records and the central directory of a zip file: every reader has to find the same one.

A reader may start at the end record or at that of zip64, and may take a member's name and sizes
from its header or from extra fields. So both end records must agree, an extra field may state only
what its header leaves to it, and zipfile must have read the very same. The format is specified in
PKWARE's APPNOTE.TXT 6.3.10, sections 4.3.12 to 4.3.16, 4.5.3 and 4.6.9.
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO

MAGIC = 4
MAX_32 = 0xFFFFFFFF
_MAX_16 = 0xFFFF
# The fields of each header after its four magic bytes.
_CENTRAL = struct.Struct("<6H3I5H2I")
_END = struct.Struct("<4H2IH")
_END_64 = struct.Struct("<Q2H2I4Q")
_LOCATOR_64 = struct.Struct("<IQI")
# What a zip64 end record says of its own size: without the magic bytes and this number.
_SIZE_64 = _END_64.size - 8
_ZIP64, _UNICODE_PATH = 0x0001, 0x7075
_UTF_8 = 0x800


@dataclass(frozen=True)
class _Place:
    """What an end record says of the central directory, and where that has to end."""

    here: int
    count: int
    length: int
    start: int
    end: int


def directory_start(file: IO[bytes], archive: zipfile.ZipFile) -> tuple[int, str | None]:
    """Return the offset of the central directory, which must end where the end records begin.

    The second is what is wrong with it or with the end records, or None.
    """
    at = file.seek(0, 2) - MAGIC - _END.size
    fields = unpack(_END, b"PK\x05\x06", file, at)
    if fields is None or fields[-1] != 0:
        return 0, "bytes (or an archive comment) after the end of the central directory"
    disk, first_disk, here, count, length, start, _ = fields
    place, problem = _place_of(file, at, _Place(here, count, length, start, at))
    if problem:
        return 0, problem
    members = len(archive.infolist())
    if disk or first_disk or place.here != place.count or place.count != members:
        return 0, f"the end counts {place.count} members, the central directory has {members}"
    if place.start + place.length != place.end:
        expected = place.end - place.length
        return 0, f"bytes before the archive or its end: expected {expected}, found {place.start}"
    return place.start, _directory_problem(file, place, archive.infolist())


def _place_of(file: IO[bytes], at: int, plain: _Place) -> tuple[_Place, str | None]:
    """Return what the zip64 end record says, if there is one, or else the plain one."""
    locator_at = at - MAGIC - _LOCATOR_64.size
    locator = unpack(_LOCATOR_64, b"PK\x06\x07", file, locator_at)
    if locator is None:
        return plain, None
    place = locator_at - MAGIC - _END_64.size
    fields = unpack(_END_64, b"PK\x06\x06", file, place)
    disk, offset, disks = locator
    if fields is None or offset != place or disk or disks > 1 or fields[0] != _SIZE_64:
        return plain, "the zip64 end of the central directory is not where it must be"
    _, _, _, disk, first_disk, here, count, length, start = fields
    if disk or first_disk:
        return plain, "the zip64 end of the central directory is of an archive of several files"
    wide = _Place(here, count, length, start, place)
    pairs = (
        ("members", plain.count, wide.count, _MAX_16),
        ("members of this file", plain.here, wide.here, _MAX_16),
        ("bytes", plain.length, wide.length, MAX_32),
        ("offset", plain.start, wide.start, MAX_32),
    )
    for what, narrow, other, most in pairs:
        if narrow not in (most, other):
            return plain, (
                "the two ends of the central directory name different ones "
                f"({what}: {narrow}, and {other} by zip64)"
            )
    return wide, None


def _directory_problem(
    file: IO[bytes], place: _Place, infos: Sequence[zipfile.ZipInfo]
) -> str | None:
    """Return how the central directory differs from what zipfile read, or None."""
    position = place.start
    for number, info in enumerate(infos):
        fields = unpack(_CENTRAL, b"PK\x01\x02", file, position)
        if fields is None:
            return f"no header of member {number} in the central directory"
        *_, name_length, extra_length, comment_length, disk, _, _, _ = fields
        if comment_length:
            return f"member {number} has a comment"
        name, extra = file.read(name_length), file.read(extra_length)
        if disk or (reason := _entry_problem(info, fields, name, extra)):
            return f"{info.filename!r}: {'it is in another file' if disk else reason}"
        position += MAGIC + _CENTRAL.size + name_length + extra_length
    is_whole = position == place.end
    return None if is_whole else f"the central directory ends at {position}, not {place.end}"


def _entry_problem(
    info: zipfile.ZipInfo, fields: Sequence[int], name: bytes, extra: bytes
) -> str | None:
    """Return how a header of the central directory differs from what zipfile read, or None."""
    flags, method, crc, compressed, size, offset = (fields[at] for at in (2, 3, 6, 7, 8, -1))
    stated = [size, compressed, offset]
    try:
        field = zip64_field(extra)
    except ValueError as err:
        return str(err)
    left_out = [at for at, value in enumerate(stated) if value == MAX_32]
    if field is not None and len(field) != 8 * len(left_out):
        return f"its zip64 field has {len(field)} bytes, its header leaves out {len(left_out)} of 3"
    if field is not None:
        for at, (value,) in zip(left_out, struct.iter_unpack("<Q", field), strict=True):
            stated[at] = value
    found = (name_of(info), info.flag_bits, info.compress_type, info.CRC)
    found_sizes = [info.file_size, info.compress_size, info.header_offset]
    if (name, flags, method, crc) != found or stated != found_sizes:
        return "the central directory that zipfile reads is another one"
    return None


def name_of(info: zipfile.ZipInfo) -> bytes:
    """Return the name of a member, as its headers have it."""
    encoding = "utf-8" if info.flag_bits & _UTF_8 else "cp437"
    return info.orig_filename.encode(encoding, "replace")


def zip64_field(extra: bytes) -> bytes | None:
    """Return the zip64 sizes and offset among the extra fields of a header, None if it has none.

    ValueError for fields that readers take for different things: two of zip64, one that ends too
    late, and the Unicode Path, by which some rename the member (Python does from 3.12 on).
    """
    found: bytes | None = None
    for kind, data in _fields(extra):
        if kind == _UNICODE_PATH:
            msg = "an extra field (0x7075, Unicode Path) gives it another name"
            raise ValueError(msg)
        if kind == _ZIP64 and found is not None:
            msg = "it has two zip64 fields"
            raise ValueError(msg)
        found = data if kind == _ZIP64 else found
    return found


def _fields(extra: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the kind and the data of each extra field."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        data = extra[at + 4 : at + 4 + length]
        if len(data) != length:
            msg = f"its extra field {kind:#06x} has {len(data)} of {length} bytes"
            raise ValueError(msg)
        yield kind, data
        at += 4 + length


def unpack(
    form: struct.Struct, magic: bytes, file: IO[bytes], offset: int
) -> tuple[int, ...] | None:
    """Return the fields after the four magic bytes, or None if the magic is missing."""
    if offset < 0:
        return None
    file.seek(offset)
    data = file.read(MAGIC + form.size)
    if len(data) < MAGIC + form.size or not data.startswith(magic):
        return None
    return form.unpack_from(data, MAGIC)
