"""Sources: where the files of an `_aot` folder are read from, the index and blobs in one.

A blob is checked against the size and SHA-256 in its record before anything else sees it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol, TypeVar

from aotbuild.errors import DamagedBlob, InvalidIndex
from aotbuild.format.canonical import sha256_hex
from aotbuild.format.files import open_regular
from aotbuild.format.index import INDEX_NAME, MOST_INDEX, Bytes, Index
from aotbuild.format.record import Blob

if TYPE_CHECKING:
    from aotbuild.runtime.buffers import Mapper

T = TypeVar("T")
B = TypeVar("B", bytes, memoryview)

# The first line of every pointer file: https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md
_LFS_POINTER = b"version https://git-lfs"
_LFS_REMEDY = (
    "The file is a placeholder of Git LFS. Run `git lfs pull` where the package comes from, or "
    "install its wheel."
)
_MEMORY = (
    "Give the process more memory; or reinstall the wheel, if it was smaller when it was built."
)

_RESTART = (
    "The package was installed again, or removed, while this process ran: restart the process."
)
# An index up to this size (some hundreds of executables) is read into memory at once.
_SMALL = 1 << 20


class Source(Protocol):
    """The files of one `_aot` folder. `place` names it in errors."""

    @property
    def place(self) -> str: ...

    def read(self, name: str, limit: int = -1) -> bytes:
        """Return the bytes of a file, at most `limit` of them; OSError if it cannot be read."""
        ...

    def view(self, name: str, size: int, mapper: Mapper) -> memoryview:
        """Return a file of `size` bytes, aligned to 64; one byte more if the file is longer."""
        ...

    def close(self) -> None: ...


class DirectorySource:
    """An `_aot` folder on disk."""

    def __init__(self, root: Path) -> None:
        self.place = str(root)
        self._opened: tuple[int, ...] | None = None

    def stay(self) -> None:
        """Mean the same folder after `os.chdir`."""
        self.place = str(absolute(Path(self.place)))

    def index(self) -> Bytes:
        """Return the bytes of the index; OSError or InvalidIndex if it cannot be read."""
        place = index_place(self)
        with open_regular(place) as file:
            self._opened = _identity(os.fstat(file.fileno()))
            return file_bytes(file, place)

    def is_replaced(self) -> bool:
        """Return whether the index is another file than the one that was opened, or gone."""
        try:
            found = _identity(Path(self.place, INDEX_NAME).stat())
        except OSError:
            found = ()
        return self._opened is not None and found != self._opened

    def read(self, name: str, limit: int = -1) -> bytes:
        """Return the bytes of a file, at most `limit` of them; OSError if it cannot be read."""
        with open_regular(f"{self.place}/{name}") as file:
            return file.read(_within(file, limit))

    def view(self, name: str, size: int, mapper: Mapper) -> memoryview:
        """Return a file of `size` bytes, mapped or copied to an aligned buffer."""
        with open_regular(f"{self.place}/{name}", buffering=0) as file:
            return mapper.view(file, _within(file, size))

    def close(self) -> None:
        """Do nothing: no file stays open."""


def _identity(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _within(file: IO[bytes], size: int) -> int:
    """Return a size, or that of the file if it is less: memory is taken for it."""
    return size if size < 0 else min(size, os.fstat(file.fileno()).st_size + 1)


class JoinedSource:
    """Several sources as one: the `_aot` folder of a base and those of its companions.

    Blobs are named by their content, so it does not matter which source has one.
    """

    def __init__(self, base: Source, *others: Source) -> None:
        self.parts = (base, *others)
        self.place = base.place

    def read(self, name: str, limit: int = -1) -> bytes:
        """Return the bytes of a file, at most `limit` of them; OSError if it cannot be read."""
        return self._first(lambda source: source.read(name, limit))

    def view(self, name: str, size: int, mapper: Mapper) -> memoryview:
        """Return a file as the first source that has it does."""
        return self._first(lambda source: source.view(name, size, mapper))

    def holding(self, name: str) -> Source:
        """Return the first source that has a file; the base if none has."""
        return next((source for source in self.parts if _has(source, name)), self.parts[0])

    def close(self) -> None:
        """Close all of them."""
        for source in self.parts:
            source.close()

    def _first(self, read: Callable[[Source], T]) -> T:
        for source in self.parts[:-1]:
            with suppress(FileNotFoundError):
                return read(source)
        return read(self.parts[-1])


def _has(source: Source, name: str) -> bool:
    try:
        source.read(name, 0)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True


def is_replaced(source: Source) -> bool:
    """Return whether the files of an opened package were installed again, or removed."""
    sources = source.parts if isinstance(source, JoinedSource) else (source,)
    return any(isinstance(each, DirectorySource) and each.is_replaced() for each in sources)


def refuse_pointer(data: Bytes | memoryview, place: str, expected: str) -> None:
    """Raise DamagedBlob if a file is a pointer of Git LFS instead of the file itself."""
    if data[: len(_LFS_POINTER)] == _LFS_POINTER:
        raise DamagedBlob(place, expected, "a Git LFS pointer", _LFS_REMEDY)


def reason_of(err: OSError) -> str:
    """Return why a file cannot be read, in the system's words and without its path."""
    if isinstance(err, FileNotFoundError):
        return "no such file"
    return err.strerror or str(err) or type(err).__name__


def absolute(path: Path) -> Path:
    """Return a path that means the same after `os.chdir`.

    Links stay in it: where they lead elsewhere tomorrow, that is what is meant.
    """
    try:
        return path.absolute()
    except OSError:  # there is no current folder any more
        return path


# --- the index ----------------------------------------------------------------------------------


def open_index(source: Source) -> Index:
    """Open the index of a source; InvalidIndex or UnsupportedFormat if it is not one."""
    return Index.open(_index_bytes(source), index_place(source))


def index_place(source: Source) -> str:
    """Return what names the index of a source in errors."""
    return f"{source.place}/{INDEX_NAME}"


def read_index(source: Source) -> bytes:
    """Return all bytes of the index of a source; InvalidIndex if it cannot be read."""
    return bytes(_index_bytes(source)[:])


def _index_bytes(source: Source) -> Bytes:
    """Return the bytes of an index; of a large file on disk, slices are read on demand."""
    place = index_place(source)
    try:
        data: Bytes = (
            source.index() if isinstance(source, DirectorySource) else source.read(INDEX_NAME)
        )
    except OSError as err:
        raise InvalidIndex(place, "a readable file", reason_of(err)) from err
    refuse_pointer(data, place, "an index")
    return data


def file_bytes(file: IO[bytes], place: str) -> Bytes:
    """Return the bytes of an open index: all of a small one, an `IndexFile` of a large one."""
    size = os.fstat(file.fileno()).st_size
    if size > MOST_INDEX:
        raise InvalidIndex(place, f"at most {MOST_INDEX:,} bytes", f"{size:,}")
    if size <= _SMALL or not hasattr(os, "pread"):
        return file.read()
    return IndexFile(file, place)


class IndexFile:
    """The bytes of an open file, as slices. `place` names it in errors.

    The file stays open as long as this object lives, so a package that is replaced meanwhile is
    read as it was, and forked processes share it. It is read and not mapped: access to a mapped
    file that was truncated kills the process. Slices may raise InvalidIndex.
    """

    def __init__(self, file: IO[bytes], place: str) -> None:
        """Duplicate the descriptor of `file`, which may be closed afterwards."""
        self._descriptor = os.dup(file.fileno())
        self._size = os.fstat(self._descriptor).st_size
        self._place = place

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, part: slice) -> bytes:
        start, stop, _ = part.indices(self._size)
        data = b""
        try:
            # One pread gives at most 2 GB, less on some network file systems, nothing at the end.
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


# --- blobs --------------------------------------------------------------------------------------


def read_blob(source: Source, blob: Blob) -> bytes:
    """Return the bytes of a blob; DamagedBlob unless size and SHA-256 are those of the record."""
    return _check_blob(source, blob, lambda: source.read(blob.path, blob.size + 1))


def view_blob(source: Source, blob: Blob, mapper: Mapper) -> memoryview:
    """Return a blob in memory, aligned to 64, read-only if mapped; DamagedBlob as `read_blob`."""
    return _check_blob(source, blob, lambda: source.view(blob.path, blob.size, mapper))


def _check_blob(source: Source, blob: Blob, read: Callable[[], B]) -> B:
    expected = f"{blob.size} bytes with SHA-256 {blob.sha256}"
    try:
        data = read()
    except OSError as err:
        raise DamagedBlob(_place(source, blob), expected, reason_of(err), _remedy(source)) from err
    except MemoryError as err:
        found = "a file that does not fit into the memory of this process"
        raise DamagedBlob(_place(source, blob), expected, found, _MEMORY) from err
    found = f"{len(data)} bytes" if len(data) < blob.size else f"more than {blob.size} bytes"
    if len(data) == blob.size:
        digest = sha256_hex(data)
        if digest == blob.sha256:
            return data
        found = f"{len(data)} bytes with SHA-256 {digest}"
    refuse_pointer(data, _place(source, blob), expected)
    raise DamagedBlob(_place(source, blob), expected, found, _remedy(source))


def _remedy(source: Source) -> str:
    return _RESTART if is_replaced(source) else ""


def _place(source: Source, blob: Blob) -> str:
    holder = source.holding(blob.path) if isinstance(source, JoinedSource) else source
    return f"{holder.place}/{blob.path}"
