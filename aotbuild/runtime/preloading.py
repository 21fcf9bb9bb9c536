"""Preloading in a thread of its own, while the caller reads weights or does something else."""

from __future__ import annotations

import threading
from collections.abc import Callable

from aotbuild.runtime.worker import Worker

# Given whether to go on; returns how many executables were loaded.
Work = Callable[[Callable[[], bool]], int]


class Preloading:
    """What `Library.preload(wait=False)` returns. A call waits for what it needs by itself."""

    def __init__(self, work: Work) -> None:
        self._count = 0
        self._error: BaseException | None = None
        self._stopped = threading.Event()
        self._worker = Worker("aotbuild-preload", lambda: self._run(work))
        if not self._worker.start():
            self._run(work)

    def wait(self, timeout: float | None = None) -> int:
        """Return how many executables this has loaded, when it has ended; raise what went wrong.

        TimeoutError if that takes more than `timeout` seconds; it goes on nevertheless.
        """
        if not self._worker.wait(timeout):
            msg = f"not all executables were ready after {timeout} s; they are still being loaded"
            raise TimeoutError(msg)
        if self._error is not None:
            raise self._error
        return self._count

    @property
    def done(self) -> bool:
        """Whether it has ended, well or not."""
        return self._worker.ended

    def stop(self) -> None:
        """Begin with no other executable, and wait until those that were begun are ready."""
        self._stopped.set()
        self._worker.wait()

    def _run(self, work: Work) -> None:
        try:
            self._count = work(self._goes_on)
        except BaseException as err:  # noqa: BLE001 - whatever it is, `wait` raises it
            self._error = err
            if self._goes_on():
                from logging import getLogger

                getLogger("aotbuild").warning("preload(wait=False): %s", err)

    def _goes_on(self) -> bool:
        """Return whether anybody can still want it: nobody at the end of the process."""
        return threading.main_thread().is_alive() and not self._stopped.is_set()
