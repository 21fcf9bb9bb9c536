"""The index and blobs of a package: read from a folder, and checked by digest.

A blob is checked against the size and SHA-256 in its record before anything else sees it. Blobs
that become constants are aligned, so that XLA:CPU takes them without a copy, and mapped where that
is safe: processes that map the same file share its memory. But a mapping is the file itself, so a
later write to the file changes what is read here (docs/explanation/architecture.md, "Threats");
`may_be_mapped` is the rule that follows from it.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol, TypeVar

from aotbuild.errors import DamagedBlob, InvalidIndex
from aotbuild.format.canonical import sha256_hex
from aotbuild.format.files import open_regular
from aotbuild.format.index import INDEX_NAME, MOST_INDEX, Bytes, Index
from aotbuild.format.record import Blob

if TYPE_CHECKING:
    import mmap

B = TypeVar("B", bytes, memoryview)

# The first line of every pointer file: https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md
_LFS_POINTER = b"version https://git-lfs"
_LFS_REMEDY = (
    "The file is a placeholder of Git LFS. Run `git lfs pull` where the package comes from, or "
    "install its wheel."
)
_MORE_MEMORY = (
    "Give the process more memory; or reinstall the wheel, if it was smaller when it was built."
)
# An index up to this size (some hundreds of executables) is read into memory at once.
_SMALL = 1 << 20
# Below this a copy costs no more than a mapping. Above it a mapping saves memory, and 10 ms of 68
# for 40 MB (the part `constants` of `benchmarks/preload.py`).
SMALLEST_MAPPED = 64 * 1024
_ALIGNMENT = 64  # as in format.tensors, which few processes need
# Before Python 3.13 a mapping keeps a descriptor open, and the limit is often 1,024 per process.
_KEEPS_DESCRIPTOR = sys.version_info < (3, 13)
_MOST_DESCRIPTORS = 256
_IS_POSIX = os.name == "posix"


class Source(Protocol):
    """The files of one `_aot` folder. `path` names it in errors."""

    @property
    def path(self) -> str: ...

    def path_of(self, name: str) -> str:
        """Return where a file is, for errors."""
        ...

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
        self.path = str(root)

    def path_of(self, name: str) -> str:
        """Return the path of a file."""
        return f"{self.path}/{name}"

    def stay(self) -> None:
        """Mean the same folder after `os.chdir`."""
        self.path = str(absolute(Path(self.path)))

    def index(self) -> Bytes:
        """Return the bytes of the index; OSError or InvalidIndex if it cannot be read."""
        path = index_path(self)
        with open_regular(path) as file:
            return file_bytes(file, path)

    def read(self, name: str, limit: int = -1) -> bytes:
        """Return the bytes of a file, at most `limit` of them; OSError if it cannot be read."""
        with open_regular(f"{self.path}/{name}") as file:
            return file.read(_within(file, limit))

    def view(self, name: str, size: int, mapper: Mapper) -> memoryview:
        """Return a file of `size` bytes, mapped or copied to an aligned buffer."""
        with open_regular(f"{self.path}/{name}", buffering=0) as file:
            return mapper.view(file, _within(file, size))

    def close(self) -> None:
        """Do nothing: no file stays open."""


def _within(file: IO[bytes], size: int) -> int:
    """Return a size, or that of the file if it is less: memory is taken for it."""
    return size if size < 0 else min(size, os.fstat(file.fileno()).st_size + 1)


def refuse_pointer(data: Bytes | memoryview, path: str, expected: str) -> None:
    """Raise DamagedBlob if a file is a pointer of Git LFS instead of the file itself."""
    if data[: len(_LFS_POINTER)] == _LFS_POINTER:
        raise DamagedBlob(path, expected, "a Git LFS pointer", _LFS_REMEDY)


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
    return Index.open(_index_bytes(source), index_path(source))


def index_path(source: Source) -> str:
    """Return what names the index of a source in errors."""
    return f"{source.path}/{INDEX_NAME}"


def read_index(source: Source) -> bytes:
    """Return all bytes of the index of a source; InvalidIndex if it cannot be read."""
    return bytes(_index_bytes(source)[:])


def _index_bytes(source: Source) -> Bytes:
    """Return the bytes of an index; of a large file on disk, slices are read on demand."""
    path = index_path(source)
    try:
        data: Bytes = (
            source.index() if isinstance(source, DirectorySource) else source.read(INDEX_NAME)
        )
    except OSError as err:
        raise InvalidIndex(path, "a readable file", reason_of(err)) from err
    refuse_pointer(data, path, "an index")
    return data


def file_bytes(file: IO[bytes], path: str) -> Bytes:
    """Return the bytes of an open index: all of a small one, an `IndexFile` of a large one."""
    size = os.fstat(file.fileno()).st_size
    if size > MOST_INDEX:
        raise InvalidIndex(path, f"at most {MOST_INDEX:,} bytes", f"{size:,}")
    if size <= _SMALL or not hasattr(os, "pread"):
        return file.read()
    return IndexFile(file, path)


class IndexFile:
    """The bytes of an open file, as slices. `path` names it in errors.

    The file stays open as long as this object lives, so a package that is replaced meanwhile is
    read as it was, and forked processes share it. It is read and not mapped: access to a mapped
    file that was truncated kills the process. Slices may raise InvalidIndex.
    """

    def __init__(self, file: IO[bytes], path: str) -> None:
        """Duplicate the descriptor of `file`, which may be closed afterwards."""
        self._descriptor = os.dup(file.fileno())
        self._size = os.fstat(self._descriptor).st_size
        self._path = path

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
            raise InvalidIndex(self._path, "a readable file", err.strerror or str(err)) from err
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
        raise DamagedBlob(source.path_of(blob.path), expected, reason_of(err)) from err
    except MemoryError as err:
        found = "a file that does not fit into the memory of this process"
        raise DamagedBlob(source.path_of(blob.path), expected, found, _MORE_MEMORY) from err
    found = f"{len(data)} bytes" if len(data) < blob.size else f"more than {blob.size} bytes"
    if len(data) == blob.size:
        digest = sha256_hex(data)
        if digest == blob.sha256:
            return data
        found = f"{len(data)} bytes with SHA-256 {digest}"
    path = source.path_of(blob.path)
    refuse_pointer(data, path, expected)
    raise DamagedBlob(path, expected, found)


# --- memory -------------------------------------------------------------------------------------


class Mapper:
    """Reads files into memory, mapped where that is safe and worth it."""

    def __init__(self, *, maps: bool = True) -> None:
        self._left = _MOST_DESCRIPTORS if maps and _IS_POSIX else 0

    def view(self, file: IO[bytes], size: int) -> memoryview:
        """Return a file of `size` bytes, aligned to 64; one byte more if the file is longer."""
        return (self._map(file, size) if self._left else None) or copied(file, size)

    def _map(self, file: IO[bytes], size: int) -> memoryview | None:
        mapping = mapped(file, size) if size >= SMALLEST_MAPPED else None
        if mapping is not None and _KEEPS_DESCRIPTOR:
            self._left -= 1
        return mapping


def mapped(file: IO[bytes], size: int) -> memoryview | None:
    """Return a file of `size` bytes, mapped; None if it must not or cannot be."""
    try:
        descriptor = file.fileno()
        if not _IS_POSIX or not may_be_mapped(os.fstat(descriptor), size):
            return None
        return memoryview(_map(descriptor, size))
    except (OSError, ValueError):
        # A member of a wheel has no descriptor, some file systems cannot map files, and the file
        # may have become shorter.
        return None


def may_be_mapped(facts: os.stat_result, size: int) -> bool:
    """Return whether a file is regular, of `size` bytes, and not writable by everybody."""
    is_file, others_write = stat.S_ISREG(facts.st_mode), facts.st_mode & stat.S_IWOTH
    return is_file and facts.st_size == size and not others_write


def _map(descriptor: int, size: int) -> mmap.mmap:
    import mmap

    options: dict[str, Any] = {"flags": mmap.MAP_PRIVATE, "prot": mmap.PROT_READ}
    if not _KEEPS_DESCRIPTOR:
        options["trackfd"] = False
    return mmap.mmap(descriptor, size, **options)


def copied(file: IO[bytes], size: int) -> memoryview:
    """Return at most `size + 1` bytes of a file, aligned to 64."""
    buffer = memoryview(aligned(size + 1))
    count = 0
    # A member of a wheel may return fewer bytes than asked for.
    while count <= size and (more := file.readinto(buffer[count:])):  # type: ignore[attr-defined]
        count += more
    return buffer[:count]


def aligned(size: int) -> Any:
    """Return an uninitialized uint8 array, aligned to 64 bytes."""
    import numpy as np

    space = np.empty(size + _ALIGNMENT, np.uint8)
    start = -space.__array_interface__["data"][0] % _ALIGNMENT
    return space[start : start + size]


def is_aligned(array: Any) -> bool:
    """Return whether an array is aligned to 64 bytes."""
    return bool(array.__array_interface__["data"][0] % _ALIGNMENT == 0)
