"""Temporary folders that can be told from abandoned ones, however their process ended.

Whoever makes one holds a lock (flock) on a file in it. The system drops the lock when the process
ends. Whoever gets it then knows that the owner was killed, and removes the folder. No ages of
locked folders are compared: clocks jump, and a build may take days.

Locks of network file systems may be known to one machine only. So the name of a folder has a mark
of the running system and the mount that it was made in, which is where locks on it hold. One with
another mark stays for 30 days.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from aotbuild.format.files import set_mode

LOCK = ".aotbuild-lock"
# The names of folders that belong to a build alone, and never into a package.
NAMES = ".aotbuild-*"
# No other program and no user gives such a name to a folder, which may be empty for a moment.
_PREFIX = ".aotbuild-tmp-"
# One for each start of a system, also for all containers in it.
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# In seconds, after which nobody uses a folder of another system any more.
_OLD = 30 * 24 * 3600.0
# The same of a folder without a lock file, which is locked a moment after it was made. There is one
# if something was written into a folder that was removed already.
_OLD_UNLOCKED = 24 * 3600.0


@contextmanager
def temporary_folder(
    parent: Path | None = None,
    what: str = "",
    rescue: Callable[[Path], None] | None = None,
) -> Iterator[Path]:
    """Yield a new folder below `parent`, by default where temporary files are; then remove it.

    Before, remove the abandoned ones there; `rescue` is given each of them first. `what` becomes a
    part of the name.
    """
    place = parent or Path(tempfile.gettempdir())
    remove_abandoned(place, rescue)
    with _new(place, f"{_PREFIX}{_mark(place)}-{what}") as folder:
        try:
            yield folder
        finally:
            _remove_surely(folder)


def remove_abandoned(parent: Path, rescue: Callable[[Path], None] | None = None) -> None:
    """Remove the temporary folders below `parent` whose process was killed.

    Those of other systems are removed if nothing was done in them for 30 days, and those that have
    no lock file if nothing was done for a day.
    """
    for folder in _own_folders(parent):
        # What belongs to a running process, or cannot be removed, stays.
        with suppress(OSError):
            number = _open_lock(folder)
            try:
                if _lock(number) if number is not None else _is_old(folder.lstat(), _OLD_UNLOCKED):
                    if rescue:
                        rescue(folder)
                    _remove(folder)
            finally:
                if number is not None:
                    os.close(number)
        # Killed before it was locked, or while it was removed.
        with suppress(OSError):
            folder.rmdir()


def _own_folders(parent: Path) -> list[Path]:
    """Return the temporary folders of this user whose locks say enough; a link is none."""
    with suppress(OSError), os.scandir(parent) as entries:
        named = [entry for entry in entries if entry.name.startswith(_PREFIX)]
        here = f"{_PREFIX}{_mark(parent)}-" if named else ""
        return [
            Path(entry.path)
            for entry in named
            if entry.is_dir(follow_symlinks=False)
            and entry.stat(follow_symlinks=False).st_uid == os.geteuid()
            and (entry.name.startswith(here) or _is_old(entry.stat(follow_symlinks=False), _OLD))
        ]
    return []


def _open_lock(folder: Path) -> int | None:
    """Open the lock file of a folder, None if it has none; OSError."""
    try:
        return os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None


def _is_old(found: os.stat_result, seconds: float) -> bool:
    return time.time() - found.st_mtime > seconds


def _mark(parent: Path) -> str:
    """Return what tells folders here from those of other systems and mounts; OSError."""
    return hashlib.sha256(f"{_system()} {parent.stat().st_dev}".encode()).hexdigest()[:12]


@cache
def _system() -> str:
    """Return the id of this start of the system, or the name of the host where there is none."""
    with suppress(OSError):
        return _BOOT_ID.read_text(encoding="ascii").strip()
    return socket.gethostname()


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
                set_mode(folder, 0o700)
                number = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
                set_mode(number, 0o600)
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
