"""Opening zip files: only regular ones, whose directory fits into memory.

Imported late: zipfile takes 10 ms.
"""

from __future__ import annotations

import errno
import os
import struct
import zipfile
from typing import IO

from aotbuild.format.files import open_regular

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
            # Windows has no `pread`, and no forks.
            super().__init__(_Positioned(file) if hasattr(os, "pread") else file)
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


class _Positioned:
    """An open file that is read at an offset of its own, as zipfile reads.

    The offset of a descriptor is one for all forked processes that inherit it: where two of them
    seek and then read, they get each other's bytes.
    """

    def __init__(self, file: IO[bytes]) -> None:
        """Read `file`, which this object does not close."""
        self._file = file
        self._offset = 0

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set the offset, and return it."""
        start = 0
        if whence == os.SEEK_CUR:
            start = self._offset
        elif whence == os.SEEK_END:
            start = self._size()
        if start + offset < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self._offset = start + offset
        return self._offset

    def tell(self) -> int:
        """Return the offset."""
        return self._offset

    def read(self, size: int = -1) -> bytes:
        """Return so many bytes, or all that are left; fewer only at the end of the file."""
        if size < 0:
            size = max(0, self._size() - self._offset)
        data = b""
        # One pread gives at most 2 GB, less on some network file systems, nothing at the end.
        while size > len(data):
            # Not a number that was kept: another file may have it once this one is closed.
            number = self._file.fileno()
            more = os.pread(number, size - len(data), self._offset + len(data))
            if not more:
                break
            data = data + more if data else more
        self._offset += len(data)
        return data

    def close(self) -> None:
        """Do nothing: who opened the file closes it."""

    def _size(self) -> int:
        return os.fstat(self._file.fileno()).st_size


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
