"""What functions of `os` are asked that raises no audit event: the environment, and what exists."""

from __future__ import annotations

import _posixsubprocess
import functools
import os
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from aotbuild.worker.recording.reader import Reader, as_path, is_seen, told_path, unseen


def watch_functions(reader: Reader) -> None:
    """Tell what functions of `os` are asked."""
    _watch_environment(reader)
    _watch("stat", reader, reader.looked)
    _watch_access(reader)
    _watch("lstat", reader, functools.partial(reader.looked, follows=False))
    _watch("readlink", reader, reader.followed)
    _watch_open(reader)
    for name in ("getcwd", "getcwdb"):
        _watch_working_folder(name, reader)
    _watch_temporary_folder(reader)
    _watch_spawn(reader)


def _watch_environment(reader: Reader) -> None:
    """Give `os.environ` another class: modules that have it already hold the same object."""
    kind: Any = type(os.environ)

    def tell(name: str | None) -> None:
        if is_seen():
            with unseen():
                reader.variable(name, sys._getframe(2))

    class _Environ(kind):  # type: ignore[misc]
        def __getitem__(self, key: Any) -> Any:
            tell(os.fsdecode(key) if isinstance(key, str | bytes) else str(key))
            return super().__getitem__(key)

        def __iter__(self) -> Any:
            tell(None)
            return super().__iter__()

        def __len__(self) -> int:
            tell(None)
            return int(super().__len__())

        def __repr__(self) -> str:
            tell(None)
            return str(super().__repr__())

    _Environ.__name__ = _Environ.__qualname__ = kind.__name__
    _Environ.__module__ = kind.__module__
    os.environ.__class__ = os.environb.__class__ = _Environ


def _watch(name: str, reader: Reader, tell: Callable[..., None]) -> None:
    """Replace a function of `os` whose first argument is a path by one that tells it."""
    plain = getattr(os, name)

    @functools.wraps(plain)
    def function(path: Any, *args: Any, **kwargs: Any) -> Any:
        if is_seen():
            with unseen():
                frame = sys._getframe(1)
                found = told_path(reader, path, frame, kwargs.get("dir_fd"))
                if found is not None and not kwargs.get("follow_symlinks", True):
                    tell(found, frame, follows=False)
                elif found is not None:
                    tell(found, frame)
        return plain(path, *args, **kwargs)

    _put(name, plain, function)


def _watch_access(reader: Reader) -> None:
    """Tell what is asked of a file, and what this user may do with it."""
    plain = os.access

    @functools.wraps(plain)
    def function(path: Any, mode: Any, **kwargs: Any) -> bool:
        if is_seen():
            with unseen():
                frame = sys._getframe(1)
                found = told_path(reader, path, frame, kwargs.get("dir_fd"))
                if found is not None and isinstance(mode, int):
                    reader.looked(found, frame, follows=kwargs.get("follow_symlinks", True))
                    reader.allowed(found, mode, frame)
        return plain(path, mode, **kwargs)

    _put("access", plain, function)


def _watch_working_folder(name: str, reader: Reader) -> None:
    plain = getattr(os, name)

    @functools.wraps(plain)
    def function() -> Any:
        if is_seen():
            with unseen():
                reader.worked_in(sys._getframe(1))
        return plain()

    _put(name, plain, function)


def _watch_temporary_folder(reader: Reader) -> None:
    """Tell of the variables behind `gettempdir`, which keeps what it found.

    Of files and folders that are made there, nobody knows the name before.
    """
    module: Any = tempfile
    plain = tempfile.gettempdir

    @functools.wraps(plain)
    def gettempdir() -> str:
        frame = sys._getframe(1)
        is_asked = frame.f_globals is not vars(tempfile) or frame.f_code.co_name == "gettempdirb"
        if is_asked and is_seen():
            with unseen():
                for name in ("TMPDIR", "TEMP", "TMP"):
                    reader.variable(name, frame)
        return plain()

    module.gettempdir = gettempdir


def _watch_open(reader: Reader) -> None:
    """Tell of files that are relative to an open folder, which the audit event does not know."""
    plain = os.open

    @functools.wraps(plain)
    def function(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if dir_fd is None or not is_seen():
            return plain(path, flags, mode, dir_fd=dir_fd)
        with unseen():
            found = as_path(path, dir_fd)
            if found is not None:
                reader.opened(found, sys._getframe(1), flags)
            return plain(path, flags, mode, dir_fd=dir_fd)

    _put("open", plain, function)


def _watch_spawn(reader: Reader) -> None:
    """Tell of the processes that `multiprocessing` starts without `subprocess`."""
    plain = _posixsubprocess.fork_exec

    def fork_exec(*args: Any) -> int:
        with unseen():
            reader.left("starts a process", sys._getframe(1))
        return int(plain(*args))

    _posixsubprocess.fork_exec = fork_exec


def _put(name: str, plain: Any, function: Any) -> None:
    for functions in (
        os.supports_fd,
        os.supports_dir_fd,
        os.supports_follow_symlinks,
        os.supports_effective_ids,
    ):
        if plain in functions:
            functions.add(function)
    setattr(os, name, function)
