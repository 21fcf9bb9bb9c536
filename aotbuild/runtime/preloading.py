"""Preloading in a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeAlias

from aotbuild.runtime.concurrency import JoinableThread
from aotbuild.runtime.observers import log

# Receives a function that returns whether to go on; returns how many executables were loaded.
Work: TypeAlias = Callable[[Callable[[], bool]], int]


class Preloading:
    """Executables being loaded in a thread, as `Library.preload(wait=False)` returns it.

    Calling `wait()` is optional: a call waits for the executable that it needs.
    """

    def __init__(self, work: Work) -> None:
        self._count = 0
        self._error: BaseException | None = None
        self._stopped = threading.Event()
        self._thread = JoinableThread("aotbuild-preload", lambda: self._run(work))
        if not self._thread.start():
            self._run(work)

    def wait(self, timeout: float | None = None) -> int:
        """Wait until all are loaded; return how many were new.

        Args:
            timeout: The longest time to wait, in seconds. None waits as long as it takes.

        Raises:
            TimeoutError: Not all were loaded in time. Loading goes on.
            AotbuildError: Some could not be loaded; the others are ready.
        """
        if not self._thread.wait(timeout):
            msg = f"not all executables were ready after {timeout} s; they are still being loaded"
            raise TimeoutError(msg)
        if self._error is not None:
            raise self._error
        return self._count

    @property
    def done(self) -> bool:
        """Whether loading has ended, successfully or not."""
        return self._thread.ended

    def stop(self) -> None:
        """Begin no other executable, and wait for those that were begun."""
        self._stopped.set()
        self._thread.wait()

    def _run(self, work: Work) -> None:
        try:
            self._count = work(self._goes_on)
        except BaseException as err:  # noqa: BLE001 - `wait` raises it
            self._error = err
            if self._goes_on():
                log("warning", "preload_failed", "preload(wait=False)", err)

    def _goes_on(self) -> bool:
        """Return whether the executables can still be wanted; not at the end of the process."""
        return threading.main_thread().is_alive() and not self._stopped.is_set()
