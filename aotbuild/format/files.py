"""Files that are written whole or not at all, and opened only if they are files."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Iterator
from enum import Enum, auto
from pathlib import Path
from typing import IO

# Not tempfile.mkstemp, whose files only their owner can read: here the system applies the umask.
# O_EXCL follows no link and opens no existing file.
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
_MODE = 0o644
_FOLDER_MODE = 0o777
# The disk, the user's share of it, or what a file may have is full; shutil names what it read.
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
# Where Linux says what the umask is, without a change of it that other threads would notice.
_STATUS = "/proc/self/status"
_kept_umask: int | None = None
# Characters of the file's name in the temporary one: a name may have 255 bytes.
_LONGEST = 50
# Bytes of a text file that somebody wrote: no manifest, lock, key or recording of trees has more.
MOST_TEXT = 64 << 20


def keep_umask() -> None:
    """Have what this module writes from now on the modes of the present umask.

    A worker asks for it before the user's code runs, which may set another one for its own files.
    """
    global _kept_umask
    _kept_umask = os.umask(0)
    os.umask(_kept_umask)


def set_mode(new: int | Path, mode: int) -> None:
    """Give a new file, by its number, or folder its mode less the kept umask, if another is set.

    Otherwise the system has done so, or what it has instead, such as a folder's default ACL.
    """
    if _kept_umask is not None and _umask() != _kept_umask:
        special = stat.S_IMODE(os.stat(new).st_mode) & ~0o777  # noqa: PTH116 (or a number)
        os.chmod(new, special | (mode & ~_kept_umask))  # noqa: PTH101


def _umask() -> int:
    with contextlib.suppress(OSError, ValueError), open_regular(_STATUS) as status:
        for line in status:
            if line.startswith(b"Umask:"):
                return int(line[len(b"Umask:") :], 8)
    now = os.umask(0)
    os.umask(now)
    return now


def write_whole(path: Path, data: bytes, temporary: Path | None = None) -> None:
    """Write a file atomically: all of it, or the old one stays. Its mode is 0o644 less the umask.

    It is first written to `temporary`, by default beside it. Raises OSError, and leaves no
    temporary file behind unless the process is killed.
    """
    temporary = temporary or path.with_name(f".{path.name[:_LONGEST]}.{os.urandom(8).hex()}")
    try:
        number = os.open(temporary, _NEW, _MODE)
        try:
            with os.fdopen(number, "wb") as file:
                set_mode(number, _MODE)
                file.write(data)
            move_whole(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as err:  # name the requested file, not the temporary one
        raise OSError(err.errno, err.strerror, str(path)) from err


def write_where_told(path: Path, data: bytes) -> None:
    """Write what a user asked for to where the user says, as programs do; raises OSError.

    Links are followed. A device of characters, a pipe, and what stdout is are written into, and
    stay what they are; a file is written whole. A folder, a socket and a disk are errors.
    """
    kind = kind_of(path)
    if kind is Kind.FILE:
        write_whole(Path(os.path.realpath(path)), data)
    elif kind is Kind.STDOUT:
        sys.stdout.flush()
        _write_into(sys.stdout.fileno(), data)
    else:
        number = os.open(path, os.O_WRONLY | getattr(os, "O_NOCTTY", 0))
        try:
            with naming(path):
                _write_into(number, data)
        finally:
            os.close(number)


class Kind(Enum):
    """What writing to a path means; `FILE` is also where nothing is yet."""

    FILE = auto()
    STREAM = auto()
    STDOUT = auto()


def kind_of(path: Path) -> Kind:
    """Return what writing to a path means; OSError if it is a folder, a socket or a disk."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return Kind.FILE
    # /dev/stdout may lead to a file: another one in its place would not be what stdout is.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        if os.path.samestat(found, os.fstat(sys.stdout.fileno())):
            return Kind.STDOUT
    if stat.S_ISREG(found.st_mode):
        return Kind.FILE
    if stat.S_ISCHR(found.st_mode) or stat.S_ISFIFO(found.st_mode):
        return Kind.STREAM
    if stat.S_ISDIR(found.st_mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    reason = "neither a file, nor a pipe or a device that takes text; name another"
    raise OSError(errno.EINVAL, reason, str(path))


def _write_into(number: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(number, left) :]


def move_whole(finished: Path, path: Path) -> None:
    """Move a finished file into its place, on the same file system; raises OSError."""
    with naming(path), finished.open("rb") as file:
        os.fsync(file.fileno())
    finished.replace(path)
    sync_folder(path.parent)


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let an OSError say what was being written: the one of a full disk names no file."""
    try:
        yield
    except OSError as err:
        if err.errno is None or (err.filename is not None and err.errno not in _FULL):
            raise
        raise OSError(err.errno, err.strerror, str(path)) from err


def make_folders(path: Path) -> None:
    """Make a folder and those above it that are missing; raises OSError.

    `Path.mkdir` does so by recursion, which ends with the thousandth.
    """
    missing = []
    while True:
        try:
            _make_folder(path)
            break
        except FileNotFoundError:
            if path.parent == path:
                raise
            missing.append(path)
            path = path.parent
    # What a folder that exists refuses, as /proc does with the same error, is not tried again.
    for folder in reversed(missing):
        _make_folder(folder)


def _make_folder(path: Path) -> None:
    """Make a folder if it is missing; FileNotFoundError if the one above it is."""
    try:
        path.mkdir()
    except OSError:
        if not path.is_dir():
            raise
    else:
        set_mode(path, _FOLDER_MODE)


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to disk, on systems that support it."""
    with contextlib.suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def read_regular(path: str | os.PathLike[str], most: int = MOST_TEXT) -> bytes:
    """Return the bytes of a regular file; OSError for anything else, and for more than `most`."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        data = file.read(most + 1) if size <= most else b""
    if size > most or len(data) > most:
        raise OSError(errno.EFBIG, f"larger than {most:,} bytes", os.fspath(path))
    return data


def read_regular_text(path: str | os.PathLike[str], errors: str = "strict") -> str:
    """Return a regular file of UTF-8 as text, with LF at the end of lines.

    Raises OSError as `read_regular`, and UnicodeDecodeError.
    """
    text = read_regular(path).decode("utf-8", errors)
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def open_regular(path: str | os.PathLike[str], *, buffering: int = -1) -> IO[bytes]:
    """Open a regular file; OSError for anything else, such as a pipe without a writer."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        code = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        reason = os.strerror(code) if stat.S_ISDIR(mode) else "not a regular file"
        raise OSError(code, reason, os.fspath(path))
    return os.fdopen(descriptor, "rb", buffering)
