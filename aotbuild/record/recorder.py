"""Watching this process from a start to a stop, into a recording."""

from __future__ import annotations

import atexit
import functools
import os
import sys
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from aotbuild.errors import AotbuildError
from aotbuild.record.recording import Recording, read_recording
from aotbuild.record.writer import Writer

if TYPE_CHECKING:
    from aotbuild.record.watcher import Watcher

_one: list[Recorder] = []  # the recorder that is on, if any


@functools.cache
def _watch_forks() -> None:
    def after_fork() -> None:
        for each in _one:
            each.after_fork()

    os.register_at_fork(after_in_child=after_fork)


def check_folder(path: Path) -> None:
    """Raise AotbuildError if there is no folder for a file."""
    if not path.parent.is_dir():
        msg = f"{path}: there is no folder {path.parent}; make it first"
        raise AotbuildError(msg)


class Recorder:
    """Watches the calls of jitted functions in this process, from `start` to `stop`.

    Functions that were made or called before are watched, too, in all threads. Child processes
    that are forked are watched; others are if they start a recorder.

    Args:
        path: The recording, as `calls.jsonl`. It is appended to; several processes may share it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()
        self._watcher: Watcher | None = None

    def start(self) -> Recorder:
        """Watch from now on; AotbuildError if a recorder is on, or the folder does not exist."""
        from aotbuild.record.watcher import Watcher  # imports jax

        if _one:
            msg = (
                "this process is recorded already\n  expected one recorder at a time\n"
                f"  found    one that writes {_one[0].path}\nStop that one first."
            )
            raise AotbuildError(msg)
        check_folder(self.path)
        self._watcher = Watcher(Writer(self.path))
        self._watcher.start()
        _one.append(self)
        atexit.register(self.stop)
        _watch_forks()
        return self

    def stop(self) -> None:
        """Watch no more, and write what was counted; do nothing if it is off."""
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            atexit.unregister(self.stop)
            _one.remove(self)
            watcher.stop()

    def read(self) -> Recording:
        """Return what was recorded; OSError, or InvalidCallLog."""
        return read_recording(self.path) if self.path.exists() else Recording()

    def after_fork(self) -> None:
        """Go on in a process that was forked."""
        if self._watcher is not None:
            self._watcher.after_fork()
            # multiprocessing ends its processes without the functions of atexit.
            util: Any = sys.modules.get("multiprocessing.util")
            if util is not None:
                util.Finalize(None, self.stop, exitpriority=0)

    def __enter__(self) -> Recorder:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
