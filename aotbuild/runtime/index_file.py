"""The file of an index, read in parts: of 10,000 records a process needs a few."""

from __future__ import annotations

import os
from typing import IO

from aotbuild.errors import InvalidIndex
from aotbuild.spec.index import Bytes

# Bytes of an index that is read whole: of some hundreds of executables.
_SMALL = 1 << 20


def file_bytes(file: IO[bytes], place: str) -> Bytes:
    """Return the bytes of an index that is open: as they are now, or of a large one its parts."""
    if os.fstat(file.fileno()).st_size <= _SMALL or not hasattr(os, "pread"):
        return file.read()
    return IndexFile(file, place)


class IndexFile:
    """The bytes of an open file, as slices. `place` names it in errors.

    It stays open until nothing refers to it, so a package that is replaced is read as it was, and a
    process that forks shares it. It is read, not mapped: a mapped file that is cut short ends the
    process. Slices may raise `InvalidIndex`.
    """

    def __init__(self, file: IO[bytes], place: str) -> None:
        """Keep a descriptor of an open file, which may be closed."""
        self._descriptor = os.dup(file.fileno())
        self._size = os.fstat(self._descriptor).st_size
        self._place = place

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, part: slice) -> bytes:
        start, stop, _ = part.indices(self._size)
        data = b""
        try:
            # The system gives 2 GB at once, and less from some networks; nothing at the end.
            while start + len(data) < stop:
                more = os.pread(self._descriptor, stop - start - len(data), start + len(data))
                if not more:
                    break
                data = data + more if data else more
        except OSError as err:
            raise InvalidIndex(self._place, "a readable file", err.strerror or str(err)) from err
        return data

    def __del__(self) -> None:
        os.close(self._descriptor)
