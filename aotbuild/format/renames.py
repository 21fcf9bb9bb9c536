"""Renames of Linux that are more than `os.rename`, where there are such."""

from __future__ import annotations

import ctypes
import errno
import os
from enum import IntEnum
from pathlib import Path

# Of linux/fcntl.h.
_AT_FDCWD = -100
# The system, its C library, a container's filter or this file system cannot do it. Where EPERM
# means that nothing may be renamed, what is tried instead says so.
_CANNOT = {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EXDEV}


class How(IntEnum):
    """What a rename does with what is in the new place; of linux/fs.h."""

    REFUSE = 1
    EXCHANGE = 2


def renamed(one: Path, other: Path, how: How) -> bool:
    """Rename a file or folder in one step; return False where that cannot be done this way.

    Raises OSError, which is FileExistsError for one that is refused.
    """
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return False
    names = (_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), int(how))
    if call(*names) == 0:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT:
        return False
    raise OSError(number, os.strerror(number), str(other))
