"""Watching this process from a start to a stop, into a call log."""

from __future__ import annotations

import atexit
import functools
import os
import sys
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from aotbuild.errors import AotbuildError
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


class Recorder:
    """Watches the calls of jitted functions in this process, from `start` to `stop`.

    Functions that were made or called before are watched, too, in all threads, and so are processes
    that are forked meanwhile. What the program computes does not change; a warm call takes a few µs
    longer.

    Args:
        path: The call log, as `calls.jsonl`. It is appended to; several processes may share it.
            `aotbuild record --from` makes a manifest of it.
        check: A package, wheel or `_aot` folder: the log gets what it has for each signature.

    Examples:
        >>> with Recorder("calls.jsonl"):
        ...     serve(requests)
    """

    def __init__(self, path: str | os.PathLike[str], check: str = "") -> None:
        self.path, self._place = Path(path).absolute(), check
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
        if not self.path.parent.is_dir():
            msg = f"{self.path}: there is no folder {self.path.parent}; make it first"
            raise AotbuildError(msg)
        check = None
        if self._place:
            from aotbuild.record.check import check_with

            check = check_with(self._place)
        self._watcher = Watcher(Writer(self.path), check)
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
