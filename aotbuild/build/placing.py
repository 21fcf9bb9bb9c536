"""The last step of a build: its finished folder goes to its place in one rename, if possible."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from aotbuild.format.files import sync_folder
from aotbuild.format.temporary import temporary_folder

# Where the old folder is for a moment if they cannot be exchanged, under its own name.
_REPLACED = "replaced"
# Of linux/fcntl.h and linux/fs.h.
_AT_FDCWD, _EXCHANGE = -100, 2
# Where EPERM means that nothing may be renamed, what is tried instead says so.
_CANNOT = {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EXDEV}


def behind_links(folder: Path) -> Path:
    """Return where a folder's link leads to, so that it stays; OSError for one that leads nowhere.

    A rename would put the new folder into the place of the link, and leave the old one as it was.
    """
    if not folder.is_symlink():
        return folder
    try:
        return folder.resolve(strict=True)
    except (OSError, RuntimeError) as err:  # RuntimeError: a loop, before Python 3.13
        raise OSError(errno.ENOENT, "a link that leads nowhere", str(folder)) from err


@contextmanager
def workplace(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder beside `folder`; remove parents made for it if they stay empty."""
    made = [parent for parent in folder.parents if not parent.exists()]
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        put_back = partial(_put_back, parent=folder.parent)
        with temporary_folder(folder.parent, rescue=put_back) as temporary:
            yield temporary
    finally:
        for parent in made:
            with suppress(OSError):
                parent.rmdir()


def put_into_place(staging: Path, folder: Path) -> None:
    """Move a finished folder to its place, instead of what is there."""
    if not _moved(staging, folder) and not _exchange(staging, folder):
        replaced = staging.parent / _REPLACED / folder.name
        replaced.parent.mkdir()
        _move_away(folder, replaced)
        try:
            staging.rename(folder)
        except BaseException:
            replaced.rename(folder)
            raise
    sync_folder(folder.parent)


def _moved(staging: Path, folder: Path) -> bool:
    """Move a folder to where nothing is; return whether that was so."""
    try:
        staging.rename(folder)
    except OSError as err:
        # Not asked before: another build may come between.
        if not folder.exists():
            raise OSError(err.errno, err.strerror, str(folder)) from err
        return False
    return True


def _move_away(folder: Path, to: Path) -> None:
    """Move a folder on one file system, or copy it where a container's image has it.

    Overlays rename no folder of their lower layers.
    """
    try:
        folder.rename(to)
    except OSError as err:
        if err.errno != errno.EXDEV:
            raise
        shutil.copytree(folder, to, symlinks=True)
        shutil.rmtree(folder)


def _put_back(abandoned: Path, parent: Path) -> None:
    """Put back the old folder that a killed build had moved away, and not replaced."""
    for old in (abandoned / _REPLACED).glob("*"):
        if not (parent / old.name).exists():
            old.rename(parent / old.name)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two folders in one step, so that there is always one.

    Return False where the system, a container's filter or this file system cannot do it. Raises
    OSError.
    """
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return False
    if call(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT:
        return False
    raise OSError(number, os.strerror(number), str(other))
