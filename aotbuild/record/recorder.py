"""Watching this process from a start to a stop, or all processes of a command, into a call log."""

from __future__ import annotations

import atexit
import functools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from aotbuild.errors import AotbuildError
from aotbuild.record.call_log import CallLogWriter

if TYPE_CHECKING:
    from aotbuild.record.watcher import Watcher

# Where `sitecustomize.py` is, and where aotbuild is imported from.
_START = Path(__file__).parent / "start"
_PACKAGES = Path(__file__).parent.parent.parent
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
        """Watch from now on.

        AotbuildError if a recorder is on or the folder does not exist, FileExistsError if the path
        is a file that is not a call log.
        """
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
        self._watcher = Watcher(CallLogWriter(self.path), check)
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
            self._watcher.begin()
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


def run_watched(
    command: Sequence[str], log: Path, *, check: str = "", stdout: int | None = None
) -> int:
    """Run a command, and watch every Python process of it that imports jax; return its exit code.

    Its processes may have another environment. SIGTERM is passed on; of Ctrl-C the terminal tells
    the command itself. The code of a command that a signal ended is 128 and the signal's number.
    `check` is the package that its calls are checked with, `stdout` the descriptor that the command
    prints into. OSError if the command cannot be started.
    """
    path = [str(_START), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path),
        "AOTBUILD_RECORD": json.dumps([str(log.absolute()), check, str(_PACKAGES)]),
    }
    process = subprocess.Popen(command, env=environment, stdout=stdout)

    def pass_on(number: int, _: FrameType | None) -> None:
        process.send_signal(number)

    before = {
        signal.SIGTERM: signal.signal(signal.SIGTERM, pass_on),
        signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),
    }
    try:
        code = process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return 128 - code if code < 0 else code
