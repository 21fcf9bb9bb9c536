"""Who else may write to a file or folder, by its owner and mode; access lists are not read."""

from __future__ import annotations

import grp
import os
import pwd
import stat


def who_else_writes(found: os.stat_result) -> str | None:
    """Return how others than this user may write to a file or folder; None if nobody may."""
    if found.st_uid not in (os.geteuid(), 0):
        return f"it belongs to {_user(found.st_uid)}"
    mode = stat.S_IMODE(found.st_mode)
    if mode & stat.S_IWOTH:
        return f"everybody may write to it (mode {mode:o})"
    if mode & stat.S_IWGRP and not _is_own(found.st_gid):
        return f"its group may write to it (mode {mode:o})"
    return None


def _is_own(gid: int) -> bool:
    """Return whether a group is that of this user alone, as most systems make one for each."""
    try:
        group, user = grp.getgrgid(gid), pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    return group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
