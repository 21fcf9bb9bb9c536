"""Permissions that hold for root, too."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Of linux/capability.h: 64-bit capabilities, and those that pass over permissions.
_VERSION = 0x20080522
_OVERRIDE, _SEARCH = 1, 2


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Sets(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint32) for name in ("effective", "permitted", "inheritable"))


@contextmanager
def like_a_user() -> Iterator[None]:
    """Let permissions hold for this thread, whoever runs it."""
    if os.geteuid() != 0:
        yield
        return
    libc, header, sets = ctypes.CDLL(None, use_errno=True), _Header(_VERSION, 0), (_Sets * 2)()
    _check(libc.capget(ctypes.byref(header), sets))
    before = sets[0].effective
    sets[0].effective = before & ~(1 << _OVERRIDE | 1 << _SEARCH)
    _check(libc.capset(ctypes.byref(header), sets))
    try:
        yield
    finally:
        sets[0].effective = before
        _check(libc.capset(ctypes.byref(header), sets))


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Let nobody write to a folder and what is in it, root included."""
    paths = [path for path in (folder, *folder.rglob("*")) if not path.is_symlink()]
    modes = {path: path.stat().st_mode for path in paths}
    for path, mode in modes.items():
        path.chmod(mode & 0o7555)
    try:
        with like_a_user():
            yield
    finally:
        for path, mode in modes.items():
            if path.exists():
                path.chmod(mode)


def _check(result: int) -> None:
    if result:
        raise OSError(ctypes.get_errno(), "capset")
