"""What hooks tell, and to whom; and what they leave out."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Protocol


class Reader(Protocol):
    """Gets told what is read. The frame is the one that reads."""

    def opened(self, path: str, frame: FrameType, flags: int = os.O_RDONLY) -> None:
        """A file was opened, or could not be."""

    def loaded(self, path: str, frame: FrameType) -> None:
        """The source of a module was read, or its bytecode in place of it."""

    def listed(self, path: str, frame: FrameType) -> None:
        """The names in a folder were read."""

    def looked(self, path: str, frame: FrameType, *, follows: bool = True) -> None:
        """It was asked whether a file exists, or what the system knows of it.

        With `follows` false, of a link itself.
        """

    def allowed(self, path: str, mode: int, frame: FrameType) -> None:
        """It was asked what this user may do with a file: a sum of R_OK, W_OK and X_OK."""

    def followed(self, path: str, frame: FrameType) -> None:
        """It was asked where a link leads to."""

    def entered(self, folder: str, frame: FrameType) -> None:
        """A folder became the working folder, or could not."""

    def variable(self, name: str | None, frame: FrameType) -> None:
        """A variable of the environment was read; None: all of them."""

    def imported(self, name: str, frame: FrameType, importer: object) -> bool:
        """A module was asked for by code of the module `importer`, if that is known.

        It returns whether it need not be told again when the same module asks for the same.
        """

    def sought(self, name: str, frame: FrameType) -> None:
        """It was asked where a module is, without importing it."""

    def replaced(self, path: str) -> None:
        """A path is about to be another file, or none."""

    def made(self, folder: str) -> None:
        """A folder with a name that nobody else has is about to be made."""

    def worked_in(self, frame: FrameType) -> None:
        """The working folder was asked for, or a path is relative to it."""

    def searched(self) -> None:
        """Something is about to be imported along the present path of imports."""

    def left(self, what: str, frame: FrameType) -> None:
        """Code asked something outside of this process and its files."""


class _Guard(threading.local):
    is_busy = False


_guard = _Guard()


def is_seen() -> bool:
    """Return whether what this thread reads now is to be told."""
    return not _guard.is_busy


@contextmanager
def unseen() -> Iterator[None]:
    """Do not see what this thread reads in the block."""
    before, _guard.is_busy = _guard.is_busy, True
    try:
        yield
    finally:
        _guard.is_busy = before


def absolute(path: str) -> str:
    """Return an absolute path, in which `..` stays: it may follow a link."""
    if os.pardir not in path:
        return os.path.abspath(path)  # noqa: PTH100 (follows no link)
    return str(Path.cwd() / path)


def as_path(given: Any, folder: int | None = None) -> str | None:
    """Return a path as text, which may be relative to an open folder; None for what is no path.

    An open file's number stands for the path that it was opened with.
    """
    try:
        if isinstance(given, int):
            path = str(Path(f"/proc/self/fd/{given}").readlink())
            return path if path.startswith("/") else None
        path = os.fsdecode(given)
        start = "" if folder is None else Path(f"/proc/self/fd/{folder}").readlink()
        return absolute(os.path.join(start, path))
    except (TypeError, ValueError, OSError):
        return None


def told_path(
    reader: Reader, given: Any, frame: FrameType, folder: int | None = None
) -> str | None:
    """Return `as_path`, and tell if the working folder decides where that is."""
    path = as_path(given, folder)
    is_named = path is not None and folder is None and not isinstance(given, int)
    if is_named and not os.fsdecode(given).startswith(os.sep):
        reader.worked_in(frame)
    return path
