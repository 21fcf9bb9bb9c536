"""Opening zip files: only regular ones, whose directory fits into memory.

Imported late: zipfile takes 10 ms.
"""

from __future__ import annotations

import os
import struct
import zipfile
from typing import IO

from aotbuild.spec.files import open_regular

# Bytes of a central directory: 100,000 members with long names, which no wheel has.
MOST_DIRECTORY = 16 << 20
# Bytes of METADATA, and of RECORD; those of the largest packages have 100 kB, and some MB.
MOST_METADATA, MOST_RECORD = 4 << 20, 64 << 20
# The ends of an archive, from APPNOTE.TXT 6.3.10: after the magic bytes; its comment may follow.
_END = struct.Struct("<4s4H2IH")
_END_64 = struct.Struct("<4sQ2H2I4Q")
_LOCATOR_SIZE = 20
_MAX_COMMENT = 0xFFFF
_MAX_32 = 0xFFFFFFFF


class RegularZip(zipfile.ZipFile):
    """A zip file that is opened to be read."""

    _regular: IO[bytes] | None = None

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open an archive; OSError if it is no regular file, BadZipFile if it is no zip file."""
        self._regular = file = open_regular(path)
        try:
            _check_directory(file)
            super().__init__(file)
        except (NotImplementedError, ValueError, struct.error, EOFError) as err:
            # A version of the future, a name that is not UTF-8, a field that ends too early.
            file.close()
            raise zipfile.BadZipFile(str(err)) from err
        except BaseException:
            file.close()
            raise
        self.filename = os.fspath(path)

    def close(self) -> None:
        """Close the archive and its file."""
        super().close()
        if self._regular is not None:
            self._regular.close()


def _check_directory(file: IO[bytes]) -> None:
    """Raise BadZipFile for a central directory that zipfile would read into memory, but is huge."""
    size = file.seek(0, os.SEEK_END)
    start = max(0, size - _MAX_COMMENT - _END.size - _LOCATOR_SIZE - _END_64.size)
    file.seek(start)
    tail = file.read()
    file.seek(0)
    end = tail.rfind(b"PK\x05\x06")
    if end < 0 or end + _END.size > len(tail):
        return  # zipfile says so
    length = _END.unpack_from(tail, end)[5]
    before = end - _LOCATOR_SIZE - _END_64.size
    if before >= 0 and tail[before : before + 4] == b"PK\x06\x06":
        length = max(length % _MAX_32, _END_64.unpack_from(tail, before)[8])
    if length > MOST_DIRECTORY:
        msg = f"its directory has {length:,} bytes, more than {MOST_DIRECTORY:,}"
        raise zipfile.BadZipFile(msg)


def read_text_member(archive: zipfile.ZipFile, name: str, most: int) -> str:
    """Return a member as text; ValueError if it is too large, KeyError if it is not there."""
    info = archive.getinfo(name)
    if info.file_size > most:
        msg = f"{name}: {info.file_size:,} bytes, more than {most:,}"
        raise ValueError(msg)
    return archive.read(info).decode("utf-8")
