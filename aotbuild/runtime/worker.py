"""A thread whose end can be waited for again after Ctrl-C."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from weakref import WeakSet

_threads: WeakSet[threading.Thread] = WeakSet()


class Worker:
    """A thread of its own for some work, which must not raise.

    No daemon: a thread inside XLA while the interpreter goes away crashes the process. For the same
    reason it is not joined: before Python 3.13 a `join` that Ctrl-C breaks off takes the thread for
    ended, and then the end of the process does not wait for it
    (https://github.com/python/cpython/issues/90882).
    """

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        self._work = work
        self._process = os.getpid()
        self._begun = False
        self._ended = threading.Event()
        # One that a daemon starts would be a daemon too.
        self._thread = threading.Thread(target=self._run, name=name, daemon=False)
        _threads.add(self._thread)

    def start(self) -> bool:
        """Return whether it could be: not at a limit of the system or at the end of the process."""
        try:
            self._thread.start()
        except RuntimeError:
            return False
        self._begun = True
        return True

    @property
    def ended(self) -> bool:
        """Whether nothing of it goes on here: it may also not have been started.

        Threads of a parent do not go on in a process that was forked.
        """
        return not self._begun or self._process != os.getpid() or self._ended.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for its end, at most `timeout` seconds; return whether it has ended."""
        return self.ended or self._ended.wait(timeout)

    def _run(self) -> None:
        try:
            # Ctrl-C may break off `start` when it has been.
            self._begun = True
            self._work()
        finally:
            self._ended.set()


def is_waited_for() -> bool:
    """Return whether the end of the process waits for any thread that is not a worker's.

    The main thread is not the last one where it leaves a server's threads behind.
    """
    return any(
        thread.is_alive() and not thread.daemon and thread not in _threads
        for thread in threading.enumerate()
    )
