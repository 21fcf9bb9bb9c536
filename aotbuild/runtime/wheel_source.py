"""The source inside a wheel, and members of zip files. Imported late: zipfile takes 10 ms."""

from __future__ import annotations

import os
import threading
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from aotbuild.errors import AotbuildError, InvalidIndex, NoArtifacts, PackageNotFound
from aotbuild.format.files import open_zip
from aotbuild.format.index import FOLDER_NAME, INDEX_NAME, MOST_INDEX

if TYPE_CHECKING:
    from aotbuild.runtime.checked_blobs import Mapper

# A ZipFile counts its open members without a lock, and closes itself if the count is wrong.
_COUNTING = threading.RLock()


class WheelSource:
    """The one `_aot` folder inside a wheel."""

    def __init__(self, path: Path) -> None:
        self._file, self._process = _open_wheel(path), os.getpid()
        folders = [
            name.removesuffix(INDEX_NAME)
            for name in self._file.namelist()
            if f"/{name}".endswith(f"/{FOLDER_NAME}/{INDEX_NAME}")
        ]
        if len(folders) != 1:
            self._file.close()
            if not folders:
                raise NoArtifacts(str(path), [str(path)])
            raise InvalidIndex(str(path), "one _aot folder", f"{len(folders)}: {folders}")
        self._folder = folders[0]
        size = self._file.getinfo(self._folder + INDEX_NAME).file_size
        if size > MOST_INDEX:
            self._file.close()
            raise InvalidIndex(str(path), f"an index of at most {MOST_INDEX:,} bytes", f"{size:,}")
        self.wheel = path
        self.path = f"{path}/{self._folder.rstrip('/')}"

    def stay(self) -> None:
        """Name the same wheel after `os.chdir`; the file itself is open."""
        with suppress(OSError):  # there may be no current folder any more
            self.wheel = self.wheel.absolute()
        self.path = f"{self.wheel}/{self._folder.rstrip('/')}"

    def path_of(self, name: str) -> str:
        """Return the path of a file in the wheel."""
        return f"{self.path}/{name}"

    def read(self, name: str, limit: int = -1) -> bytes:
        """Return the bytes of a file, at most `limit` of them; OSError if it cannot be read."""
        self._check_open()
        return read_member(self._file, self._folder + name, limit)

    def view(self, name: str, size: int, mapper: Mapper) -> memoryview:
        """Return a file of `size` bytes, aligned to 64; files in a wheel are never mapped."""
        self._check_open()
        return view_member(self._file, self._folder + name, size, mapper)

    def close(self) -> None:
        """Close the wheel."""
        self._file.close()

    def _check_open(self) -> None:
        if self._file.fp is None:
            msg = f"{self.path}: the library was closed, and with it the wheel; load it again"
            raise AotbuildError(msg)
        if self._process != os.getpid():
            # The offset of an open file is one for all processes that inherit it by a fork.
            self._file, self._process = _open_wheel(self.wheel), os.getpid()


def read_member(archive: zipfile.ZipFile, name: str, limit: int = -1) -> bytes:
    """Return the bytes of a member, at most `limit` of them; OSError if it cannot be read."""
    with _member(archive, name) as file:
        return file.read(_within(archive, name, limit))


def view_member(archive: zipfile.ZipFile, name: str, size: int, mapper: Mapper) -> memoryview:
    """Return a member of `size` bytes in memory, aligned to 64; OSError if it cannot be read."""
    with _member(archive, name) as file:
        return mapper.view(file, _within(archive, name, size))


def _within(archive: zipfile.ZipFile, name: str, size: int) -> int:
    """Return a size, or what a member unpacks to if that is less: memory is taken for it."""
    stated = archive.getinfo(name).file_size
    return stated if size < 0 else min(size, stated)


@contextmanager
def _member(archive: zipfile.ZipFile, name: str) -> Iterator[IO[bytes]]:
    try:
        method = archive.getinfo(name).compress_type
        if method not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            msg = f"{name}: compression method {method}, and members are stored or deflated"
            raise OSError(msg)
        with _COUNTING:
            file = archive.open(name)
        try:
            yield file
        finally:
            with _COUNTING:
                file.close()
    except KeyError:
        raise FileNotFoundError(name) from None
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError) as err:
        raise OSError(str(err)) from err


def _open_wheel(path: Path) -> zipfile.ZipFile:
    try:
        return open_zip(path)
    except FileNotFoundError:
        raise PackageNotFound(str(path), [str(path)]) from None
    except (OSError, zipfile.BadZipFile) as err:
        found = (err.strerror if isinstance(err, OSError) else None) or str(err)
        raise InvalidIndex(str(path), "a wheel (a zip file)", found) from err
