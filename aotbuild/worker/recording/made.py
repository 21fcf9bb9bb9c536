"""Files that this process makes itself: what it reads from them again is no input."""

from __future__ import annotations

import os
from types import FrameType

from aotbuild.worker.recording.owners import EVERYBODY, owners

_WRITES = os.O_WRONLY | os.O_RDWR


class MadeFiles:
    """Files that did not exist before and that one module wrote, and folders of `tempfile`."""

    def __init__(self) -> None:
        self._makers: dict[str, str] = {}
        self._folders: set[str] = set()

    def opened(self, path: str, frame: FrameType, flags: int) -> None:
        """A file is about to be opened."""
        if not flags & _WRITES:
            return
        maker, before = _maker(frame), self._makers.get(path)
        is_whole = flags & os.O_CREAT and flags & (os.O_TRUNC | os.O_EXCL)
        if before is None and is_whole and not os.path.lexists(path):
            self._makers[path] = maker
        elif before not in (None, maker):
            self.forget(path)  # others have a part in it

    def made(self, folder: str) -> None:
        """A folder with a random name is about to be made."""
        self._folders.add(folder)

    def forget(self, path: str) -> None:
        """A path may be another file from now on."""
        self._makers.pop(path, None)

    def has(self, path: str, frame: FrameType) -> bool:
        """Return whether a path is nothing but what the module that asks has made."""
        maker = self._makers.get(path)
        if maker is not None:
            return maker == _maker(frame)
        is_below = any(f"{path}/".startswith(f"{folder}/") for folder in self._folders)
        return is_below and (_is_folder(path) or not os.path.lexists(path))


def is_of_tempfile(frame: FrameType | None) -> bool:
    """Return whether `tempfile` does it, with a name that nobody else has."""
    while frame is not None and str(frame.f_globals.get("__name__")).startswith(__package__ or ""):
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__") == "tempfile"


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)  # noqa: PTH112, PTH114


def _maker(frame: FrameType) -> str:
    return next(filter(None, owners(frame)), EVERYBODY)
