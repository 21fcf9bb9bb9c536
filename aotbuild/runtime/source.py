"""Sources: where the files of an `_aot` folder are read from, and the check of every blob."""

from __future__ import annotations

import errno
import os
import stat
import zipfile
import zlib
from pathlib import Path
from typing import IO, Protocol

from aotbuild.errors import AotbuildError, DamagedBlob, InvalidIndex, NoArtifacts, PackageNotFound
from aotbuild.spec.canonical import sha256_hex
from aotbuild.spec.index import FOLDER_NAME, INDEX_NAME, Index
from aotbuild.spec.record import Blob

# The first line of every pointer file: https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md
_LFS_POINTER = b"version https://git-lfs"
_LFS_REMEDY = (
    "The file is a placeholder of Git LFS. Run `git lfs pull` where the package comes from, or "
    "install its wheel."
)


class Source(Protocol):
    """The files of one `_aot` folder. `place` names it in errors."""

    @property
    def place(self) -> str: ...

    def read(self, name: str, limit: int = -1) -> bytes:
        """Return the bytes of a file, at most `limit` of them; OSError if it cannot be read."""
        ...

    def close(self) -> None: ...


class DirectorySource:
    """An `_aot` folder on disk."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.place = str(root)

    def read(self, name: str, limit: int = -1) -> bytes:
        """Return the bytes of a file, at most `limit` of them; OSError if it cannot be read."""
        with open_regular(self._root / name) as file:
            return file.read(limit)

    def close(self) -> None:
        """Do nothing: no file stays open."""


class WheelSource:
    """The one `_aot` folder inside a wheel."""

    def __init__(self, path: Path) -> None:
        self._file = _open_wheel(path)
        folders = [
            name.removesuffix(INDEX_NAME)
            for name in self._file.namelist()
            if name.endswith(f"{FOLDER_NAME}/{INDEX_NAME}")
        ]
        if len(folders) != 1:
            self._file.close()
            if not folders:
                raise NoArtifacts(str(path), [str(path)])
            raise InvalidIndex(str(path), "one _aot folder", f"{len(folders)}: {folders}")
        self._folder = folders[0]
        self.wheel = path
        self.place = f"{path}/{self._folder.rstrip('/')}"

    def read(self, name: str, limit: int = -1) -> bytes:
        """Return the bytes of a file, at most `limit` of them; OSError if it cannot be read."""
        if self._file.fp is None:
            msg = f"{self.place}: the library was closed, and with it the wheel; load it again"
            raise AotbuildError(msg)
        return read_member(self._file, self._folder + name, limit)

    def close(self) -> None:
        """Close the wheel."""
        self._file.close()


class JoinedSource:
    """Several sources as one: the `_aot` folder of a base and those of its companions.

    Blobs are named by their content, so it does not matter which of them has one.
    """

    def __init__(self, base: Source, *others: Source) -> None:
        self._sources = (base, *others)
        self.place = base.place

    def holding(self, name: str) -> Source:
        """Return the first source that has a file; the base if none has."""
        return next((source for source in self._sources if _has(source, name)), self._sources[0])

    def read(self, name: str, limit: int = -1) -> bytes:
        """Return the bytes of a file, at most `limit` of them; OSError if it cannot be read."""
        return self.holding(name).read(name, limit)

    def close(self) -> None:
        """Close all of them."""
        for source in self._sources:
            source.close()


def _has(source: Source, name: str) -> bool:
    try:
        source.read(name, 0)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True


def read_member(archive: zipfile.ZipFile, name: str, limit: int = -1) -> bytes:
    """Return the bytes of a member, at most `limit` of them; OSError if it cannot be read."""
    try:
        with archive.open(name) as file:
            return file.read(limit)
    except KeyError:
        raise FileNotFoundError(name) from None
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError) as err:
        raise OSError(str(err)) from err


def open_regular(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open a regular file; OSError for anything else, such as a pipe that nobody writes to."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        code = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        reason = os.strerror(code) if stat.S_ISDIR(mode) else "not a regular file"
        raise OSError(code, reason, os.fspath(path))
    return os.fdopen(descriptor, "rb")


def open_index(source: Source) -> Index:
    """Open the index of a source; InvalidIndex or UnsupportedFormat if it is not one."""
    return Index.open(read_index(source), index_place(source))


def index_place(source: Source) -> str:
    """Return what names the index of a source in errors."""
    return f"{source.place}/{INDEX_NAME}"


def read_index(source: Source) -> bytes:
    """Return the bytes of the index of a source; InvalidIndex if there is none to read."""
    place = index_place(source)
    try:
        data = source.read(INDEX_NAME)
    except OSError as err:
        raise InvalidIndex(place, "a readable file", _reason(err)) from err
    if data.startswith(_LFS_POINTER):
        raise DamagedBlob(place, "an index", "a Git LFS pointer", _LFS_REMEDY)
    return data


def read_blob(source: Source, blob: Blob) -> bytes:
    """Return the bytes of a blob; DamagedBlob unless they are exactly the ones that were built."""
    if isinstance(source, JoinedSource):
        source = source.holding(blob.path)  # the one that an error has to name
    place = f"{source.place}/{blob.path}"
    expected = f"{blob.size} bytes with SHA-256 {blob.sha256}"
    try:
        data = source.read(blob.path, blob.size + 1)
    except OSError as err:
        raise DamagedBlob(place, expected, _reason(err)) from err
    if data.startswith(_LFS_POINTER):
        raise DamagedBlob(place, expected, "a Git LFS pointer", _LFS_REMEDY)
    if len(data) != blob.size:
        found = f"{len(data)} bytes" if len(data) < blob.size else f"more than {blob.size} bytes"
        raise DamagedBlob(place, expected, found)
    digest = sha256_hex(data)
    if digest != blob.sha256:
        raise DamagedBlob(place, expected, f"{len(data)} bytes with SHA-256 {digest}")
    return data


def _open_wheel(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except FileNotFoundError:
        raise PackageNotFound(str(path), [str(path)]) from None
    except (OSError, zipfile.BadZipFile) as err:
        raise InvalidIndex(str(path), "a wheel (a zip file)", _reason(err)) from err


def _reason(err: Exception) -> str:
    if isinstance(err, FileNotFoundError):
        return "no such file"
    return (err.strerror if isinstance(err, OSError) else None) or str(err) or type(err).__name__
