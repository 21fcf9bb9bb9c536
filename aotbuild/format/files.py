"""Files that are written whole or not at all, and opened only if they are files."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

if TYPE_CHECKING:
    import zipfile
    from typing import Any

# Not tempfile.mkstemp, whose files only their owner can read: here the system applies the umask.
# O_EXCL follows no link and opens no existing file.
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
_MODE = 0o644
# The disk, the user's share of it, or what a file may have is full; shutil names what it read.
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
# Characters of the file's name in the temporary one: a name may have 255 bytes.
_LONGEST = 50
# Bytes of a text file that somebody wrote: no manifest, lock, key or recording of trees has more.
MOST_TEXT = 64 << 20


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
                file.write(data)
            move_whole(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as err:  # name the requested file, not the temporary one
        raise OSError(err.errno, err.strerror, str(path)) from err


def write_where_told(path: Path, data: bytes) -> None:
    """Write what a user asked for to where the user says; raises OSError.

    Links are followed. A device, a pipe and what stdout is are written into; another file is
    written whole.
    """
    if _is_stdout(path):
        with naming(path):
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
            sys.stdout.flush()
    elif path.exists() and not path.is_file():
        with naming(path), path.open("wb") as stream:
            stream.write(data)
    else:
        write_whole(Path(os.path.realpath(path)), data)


def _is_stdout(path: Path) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(1))
    except OSError:  # nothing is there, or stdout is closed
        return False


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


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a regular file; raises OSError."""
    with open_regular(path) as file:
        return hashlib.file_digest(cast("Any", file), "sha256").hexdigest()


def open_zip(path: str | os.PathLike[str]) -> zipfile.ZipFile:
    """Open a zip file to read it; OSError if it is no regular file, BadZipFile if it is no zip."""
    import zipfile  # takes 10 ms

    open_regular(path).close()
    try:
        return zipfile.ZipFile(path)
    except (NotImplementedError, ValueError, struct.error, EOFError) as err:
        # A version of the future, a name that is not UTF-8, a field that ends too early.
        raise zipfile.BadZipFile(str(err)) from err
