"""Sources: where the files of an `_aot` folder are read from, and the check of every blob."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol, TypeVar

from aotbuild.errors import DamagedBlob, InvalidIndex
from aotbuild.spec.canonical import sha256_hex
from aotbuild.spec.index import INDEX_NAME, Bytes, Index
from aotbuild.spec.record import Blob

if TYPE_CHECKING:
    from aotbuild.runtime.buffers import Mapper

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


# The first line of every pointer file: https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md
_LFS_POINTER = b"version https://git-lfs"
_LFS_REMEDY = (
    "The file is a placeholder of Git LFS. Run `git lfs pull` where the package comes from, or "
    "install its wheel."
)


T = TypeVar("T")
B = TypeVar("B", bytes, memoryview)


class Source(Protocol):
    """The files of one `_aot` folder. `place` names it in errors."""

    @property
    def place(self) -> str: ...

    def read(self, name: str, limit: int = -1) -> bytes:
        """Return the bytes of a file, at most `limit` of them; OSError if it cannot be read."""
        ...

    def view(self, name: str, size: int, mapper: Mapper) -> memoryview:
        """Return a file of that size from a multiple of 64 on; a byte more of a longer one."""
        ...

    def close(self) -> None: ...


class DirectorySource:
    """An `_aot` folder on disk."""

    def __init__(self, root: Path) -> None:
        self.place = str(root)

    def read(self, name: str, limit: int = -1) -> bytes:
        """Return the bytes of a file, at most `limit` of them; OSError if it cannot be read."""
        with open_regular(f"{self.place}/{name}") as file:
            return file.read(limit)

    def view(self, name: str, size: int, mapper: Mapper) -> memoryview:
        """Return a file of that size, mapped or from a multiple of 64 on."""
        with open_regular(f"{self.place}/{name}", buffering=0) as file:
            return mapper.view(file, size)

    def close(self) -> None:
        """Do nothing: no file stays open."""


class JoinedSource:
    """Several sources as one: the `_aot` folder of a base and those of its companions.

    Blobs are named by their content, so it does not matter which of them has one.
    """

    def __init__(self, base: Source, *others: Source) -> None:
        self._sources = (base, *others)
        self.place = base.place

    def read(self, name: str, limit: int = -1) -> bytes:
        """Return the bytes of a file, at most `limit` of them; OSError if it cannot be read."""
        return self._first(lambda source: source.read(name, limit))

    def view(self, name: str, size: int, mapper: Mapper) -> memoryview:
        """Return a file of that size, as the source that has it does."""
        return self._first(lambda source: source.view(name, size, mapper))

    def holding(self, name: str) -> Source:
        """Return the first source that has a file; the base if none has."""
        return next((source for source in self._sources if _has(source, name)), self._sources[0])

    def close(self) -> None:
        """Close all of them."""
        for source in self._sources:
            source.close()

    def _first(self, read: Callable[[Source], T]) -> T:
        """Return what the first source that has the file gives; ask no other one."""
        for source in self._sources[:-1]:
            with suppress(FileNotFoundError):
                return read(source)
        return read(self._sources[-1])


def _has(source: Source, name: str) -> bool:
    try:
        source.read(name, 0)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True


def open_regular(path: str | os.PathLike[str], *, buffering: int = -1) -> IO[bytes]:
    """Open a regular file; OSError for anything else, such as a pipe that nobody writes to."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        code = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        reason = os.strerror(code) if stat.S_ISDIR(mode) else "not a regular file"
        raise OSError(code, reason, os.fspath(path))
    return os.fdopen(descriptor, "rb", buffering)


def open_index(source: Source) -> Index:
    """Open the index of a source; InvalidIndex or UnsupportedFormat if it is not one."""
    return Index.open(_index_bytes(source), index_place(source))


def index_place(source: Source) -> str:
    """Return what names the index of a source in errors."""
    return f"{source.place}/{INDEX_NAME}"


def read_index(source: Source) -> bytes:
    """Return the bytes of the index of a source; InvalidIndex if there is none to read."""
    return bytes(_index_bytes(source)[:])


def _index_bytes(source: Source) -> Bytes:
    """Return the bytes of an index; those of a folder may be read only when asked for."""
    place = index_place(source)
    try:
        if isinstance(source, DirectorySource):
            with open_regular(place) as file:
                data = file_bytes(file, place)
        else:
            data = source.read(INDEX_NAME)
    except OSError as err:
        raise InvalidIndex(place, "a readable file", _reason(err)) from err
    if data[: len(_LFS_POINTER)] == _LFS_POINTER:
        raise DamagedBlob(place, "an index", "a Git LFS pointer", _LFS_REMEDY)
    return data


def read_blob(source: Source, blob: Blob) -> bytes:
    """Return the bytes of a blob; DamagedBlob unless they are exactly the ones that were built."""
    return _checked(source, blob, lambda: source.read(blob.path, blob.size + 1))


def view_blob(source: Source, blob: Blob, mapper: Mapper) -> memoryview:
    """Return a blob in memory at a multiple of 64, read-only if mapped; DamagedBlob as above."""
    return _checked(source, blob, lambda: source.view(blob.path, blob.size, mapper))


def _checked(source: Source, blob: Blob, read: Callable[[], B]) -> B:
    expected = f"{blob.size} bytes with SHA-256 {blob.sha256}"
    try:
        data = read()
    except OSError as err:
        raise DamagedBlob(_place(source, blob), expected, _reason(err)) from err
    if data[: len(_LFS_POINTER)] == _LFS_POINTER:
        raise DamagedBlob(_place(source, blob), expected, "a Git LFS pointer", _LFS_REMEDY)
    if len(data) != blob.size:
        found = f"{len(data)} bytes" if len(data) < blob.size else f"more than {blob.size} bytes"
        raise DamagedBlob(_place(source, blob), expected, found)
    digest = sha256_hex(data)
    if digest != blob.sha256:
        found = f"{len(data)} bytes with SHA-256 {digest}"
        raise DamagedBlob(_place(source, blob), expected, found)
    return data


def _place(source: Source, blob: Blob) -> str:
    holder = source.holding(blob.path) if isinstance(source, JoinedSource) else source
    return f"{holder.place}/{blob.path}"


def _reason(err: Exception) -> str:
    if isinstance(err, FileNotFoundError):
        return "no such file"
    return (err.strerror if isinstance(err, OSError) else None) or str(err) or type(err).__name__
