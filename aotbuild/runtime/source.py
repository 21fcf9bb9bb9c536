"""Sources: finding the `_aot` folder of a package, and reading the index and blobs in it.

The package is not imported. A blob is checked against the size and SHA-256 in its record before
anything else sees it.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol, TypeVar

from aotbuild.errors import AotbuildError, DamagedBlob, InvalidIndex, NoArtifacts, PackageNotFound
from aotbuild.format.canonical import sha256_hex
from aotbuild.format.files import open_regular
from aotbuild.format.index import FOLDER_NAME, INDEX_NAME, MOST_INDEX, Bytes, Index
from aotbuild.format.record import Blob

if TYPE_CHECKING:
    from aotbuild.runtime.buffers import Mapper
    from aotbuild.runtime.wheel_source import WheelSource

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
# Characters of a name of a file; `pathlib` raises OSError for more.
_LONGEST = 255
# An index up to this size (some hundreds of executables) is read into memory at once.
_SMALL = 1 << 20


class Source(Protocol):
    """The files of one `_aot` folder. `place` names it in errors."""

    @property
    def place(self) -> str: ...

    def place_of(self, name: str) -> str:
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
        self.place = str(root)

    def place_of(self, name: str) -> str:
        """Return the path of a file."""
        return f"{self.place}/{name}"

    def stay(self) -> None:
        """Mean the same folder after `os.chdir`."""
        self.place = str(absolute(Path(self.place)))

    def index(self) -> Bytes:
        """Return the bytes of the index; OSError or InvalidIndex if it cannot be read."""
        place = index_place(self)
        with open_regular(place) as file:
            return file_bytes(file, place)

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


def _within(file: IO[bytes], size: int) -> int:
    """Return a size, or that of the file if it is less: memory is taken for it."""
    return size if size < 0 else min(size, os.fstat(file.fileno()).st_size + 1)


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
        raise DamagedBlob(source.place_of(blob.path), expected, reason_of(err)) from err
    except MemoryError as err:
        found = "a file that does not fit into the memory of this process"
        raise DamagedBlob(source.place_of(blob.path), expected, found, _MEMORY) from err
    found = f"{len(data)} bytes" if len(data) < blob.size else f"more than {blob.size} bytes"
    if len(data) == blob.size:
        digest = sha256_hex(data)
        if digest == blob.sha256:
            return data
        found = f"{len(data)} bytes with SHA-256 {digest}"
    place = source.place_of(blob.path)
    refuse_pointer(data, place, expected)
    raise DamagedBlob(place, expected, found)


# --- finding a package --------------------------------------------------------------------------


def locate(
    package: str | os.PathLike[str], *, stays: bool = False
) -> DirectorySource | WheelSource:
    """Return the source of a package name, an `_aot` folder (or its parent) or a wheel.

    With `stays`, the source is read after `os.chdir`, too: its place is absolute.

    Raises PackageNotFound, or NoArtifacts if there is no `_aot` folder in it.
    """
    name = package_name(package)
    source = _at_path(Path(package)) if name is None else _of_package(name)
    if stays:
        source.stay()
    return source


def package_name(package: str | os.PathLike[str]) -> str | None:
    """Return `package` if it is the name of a package, None if it is a path."""
    if not isinstance(package, (str, os.PathLike)):
        msg = (
            f"load(package)\n  expected the name of a package, or a path\n  found    {package!r}\n"
            "Pass a text, or a pathlib.Path."
        )
        raise AotbuildError(msg)
    is_path = isinstance(package, os.PathLike) or _looks_like_path(package)
    return None if is_path else str(package)


def _looks_like_path(text: str) -> bool:
    separators = {os.sep, os.altsep or os.sep, "/"}
    return text.endswith(".whl") or text.startswith(".") or any(sep in text for sep in separators)


def _at_path(path: Path) -> DirectorySource | WheelSource:
    if path.suffix == ".whl":
        from aotbuild.runtime.wheel_source import WheelSource

        return WheelSource(path)
    if not os.path.isdir(path):  # noqa: PTH112 - `is_dir` raises OSError for names that are too long
        raise PackageNotFound(str(path), [str(path)])
    for folder in (path, path / FOLDER_NAME):
        if (folder / INDEX_NAME).is_file():
            return DirectorySource(folder)
    raise NoArtifacts(str(path), [str(path), str(path / FOLDER_NAME)])


def _of_package(package: str) -> DirectorySource:
    parts = package.split(".")
    if not all(part.isidentifier() and len(part) <= _LONGEST for part in parts):
        raise PackageNotFound(package, [])
    locations = package_folders(parts)
    below_path = [Path(entry or ".").joinpath(*parts) for entry in sys.path]
    searched = list(dict.fromkeys(folder / FOLDER_NAME for folder in (*locations, *below_path)))
    for folder in searched:
        if (folder / INDEX_NAME).is_file():
            return DirectorySource(folder)
    if not locations:
        archive = next(filter(os.path.isfile, sys.path), "")
        hint = f" Nothing is loaded from within {archive}: give the path of a wheel instead."
        places = [str(folder.parent) for folder in searched]
        raise PackageNotFound(package, places, hint if archive else "")
    exists = [str(folder) for folder in searched if folder.parent.is_dir()]
    raise NoArtifacts(package, exists)


def package_folders(parts: list[str]) -> list[Path]:
    """Return the folders of a package; `find_spec` finds only the top level without importing."""
    folders = [folder.joinpath(*parts[1:]) for folder in _top_level_folders(parts[0])]
    return [folder for folder in folders if folder.exists()]


def _top_level_folders(name: str) -> Iterator[Path]:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return
    for location in (spec.submodule_search_locations or ()) if spec else ():
        yield Path(location)
