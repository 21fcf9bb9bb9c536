"""The file that a call log is written to, by any number of processes and threads."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from aotbuild.record.call_log import BEGINNING, first_line

_BLOCK = 1 << 16


class Writer:
    """Appends whole lines to a file. After a first failure it says so once, and writes no more."""

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self._has_failed = False

    def write(self, lines: Iterable[bytes]) -> None:
        """Append lines; a full disk does not stop the program."""
        data = b"".join(lines)
        if self._has_failed or not data:
            return
        try:
            self._append(data)
        except OSError as err:
            self._has_failed = True
            why = err.strerror or str(err)
            tell(f"{self._path}: {why}; this process records nothing more")

    def _append(self, data: bytes) -> None:
        # Opened each time: programs close descriptors they do not know, and fork.
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, 0o644)
        try:
            with _locked(descriptor):
                _check_call_log(descriptor)
                size = _drop_cut_line(descriptor)
                _write_whole(descriptor, data if size else first_line() + data, size)
        finally:
            os.close(descriptor)


def tell(text: str) -> None:
    """Write a line to standard error, which a daemon may have closed."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        sys.stderr.write(f"aotbuild: {text}\n")


def _check_call_log(descriptor: int) -> None:
    """Raise FileExistsError for any other file; the first line of a call log may be cut off."""
    size = os.fstat(descriptor).st_size
    found = os.pread(descriptor, min(size, len(BEGINNING)), 0)  # a device has no size
    if not BEGINNING.startswith(found):
        raise FileExistsError(errno.EEXIST, "is there already and is no call log; name another")


def _drop_cut_line(descriptor: int) -> int:
    """Cut off a last line without an end, of a process that was killed; return the size."""
    size = end = os.fstat(descriptor).st_size
    while end and os.pread(descriptor, 1, end - 1) != b"\n":
        block = os.pread(descriptor, min(end, _BLOCK), max(0, end - _BLOCK))
        end -= len(block) - (block.rfind(b"\n") + 1)
    if end < size:
        os.ftruncate(descriptor, end)
    return end


def _write_whole(descriptor: int, data: bytes, size: int) -> None:
    """Write all of it, or nothing."""
    try:
        written = 0
        while written < len(data):
            written += os.write(descriptor, data[written:])
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, size)
        raise


@contextlib.contextmanager
def _locked(descriptor: int) -> Iterator[None]:
    """Keep other processes from appending; without locks where the file system has none."""
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
