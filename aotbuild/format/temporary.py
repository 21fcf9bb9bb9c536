"""Temporary folders that can be told from abandoned ones, however their process ended.

Whoever makes one holds a lock (flock) on a file in it. The system drops the lock when the process
ends. Whoever gets it then knows that the owner was killed, and removes the folder.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

LOCK = ".aotbuild-lock"
# The names of folders that belong to a build alone, and never into a package.
NAMES = ".aotbuild-*"
# No other program and no user gives such a name to a folder, which may be empty for a moment.
_PREFIX = ".aotbuild-tmp-"
# In seconds: a folder is locked a moment after it was made, so one without a lock file may be new.
_OLD = 24 * 3600.0


@contextmanager
def temporary_folder(
    parent: Path | None = None, what: str = "", rescue: Callable[[Path], None] | None = None
) -> Iterator[Path]:
    """Yield a new folder below `parent`, by default where temporary files are; then remove it.

    Before, remove the abandoned ones there; `rescue` is given each of them first. `what` becomes a
    part of the name.
    """
    place = parent or _usual_place()
    remove_abandoned(place, rescue)
    with _new(place, f"{_PREFIX}{what}") as folder:
        try:
            yield folder
        finally:
            _remove_surely(folder)


def scratch_file() -> IO[bytes]:
    """Return a file without a name: in memory on Linux, where no folder has to be writable."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("aotbuild"), "w+b")
    return tempfile.TemporaryFile()


def _usual_place() -> Path:
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError as err:
        msg = (
            "no folder for temporary files\n"
            "  expected one that can be written: what this needs until it ends goes there\n"
            f"  found    {str(err.strerror).rpartition(' in ')[2].strip('[]')}, all read-only\n"
            "Set TMPDIR to a folder that can be written, such as /dev/shm."
        )
        raise OSError(msg) from err


def remove_abandoned(parent: Path, rescue: Callable[[Path], None] | None = None) -> None:
    """Remove the temporary folders below `parent` whose process was killed."""
    with suppress(OSError):
        for folder in sorted(parent.glob(f"{_PREFIX}*")):
            # What belongs to a running process, or cannot be removed, stays.
            with suppress(OSError):
                _remove_if_abandoned(folder, rescue)


def _remove_if_abandoned(folder: Path, rescue: Callable[[Path], None] | None) -> None:
    found = folder.lstat()
    if folder.is_symlink() or found.st_uid != os.geteuid():
        return
    try:
        number = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        if time.time() - found.st_mtime > _OLD:
            _remove(folder)
        folder.rmdir()  # killed before it was locked, or while it was removed
        return
    try:
        if _lock(number):
            if rescue:
                rescue(folder)
            _remove(folder)
    finally:
        os.close(number)


@contextmanager
def _new(parent: Path, prefix: str) -> Iterator[Path]:
    """Yield a new folder, locked as long as the block runs where the file system has locks."""
    while True:
        # Not mkdtemp: Ctrl-C may come before it says which name it gave.
        folder = parent / f"{prefix}{os.urandom(6).hex()}"
        try:
            folder.mkdir(0o700)
            # Until it is locked, another process may take it for abandoned, and remove it.
            with suppress(FileNotFoundError):
                number = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
                if _lock(number) is not False and os.fstat(number).st_nlink:
                    break
                os.close(number)
        except FileExistsError:
            continue
        except BaseException:  # Ctrl-C too
            _remove(folder)
            raise
    try:
        yield folder
    finally:
        os.close(number)


def _lock(number: int) -> bool | None:
    """Lock a file; return whether that worked, None where the file system has no locks."""
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _remove_surely(folder: Path) -> None:
    """Remove a folder, also if Ctrl-C comes meanwhile."""
    try:
        _remove(folder)
    except KeyboardInterrupt:
        _remove(folder)
        raise


def _remove(folder: Path) -> None:
    """Remove a folder whose lock is held, and the lock last; what cannot be removed stays."""
    with suppress(OSError):
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != LOCK:
                path.unlink(missing_ok=True)
        if {path.name for path in folder.iterdir()} <= {LOCK}:
            (folder / LOCK).unlink(missing_ok=True)
            folder.rmdir()
