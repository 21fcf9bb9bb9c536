"""Work done by several threads, given up as soon as nobody wants it.

A ThreadPoolExecutor does all that was submitted before a process may end or an exception may leave
(its workers are joined by `threading` before the main thread counts as ended). Loading thousands of
executables that nobody will call is not worth that wait.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from queue import SimpleQueue
from typing import Generic, TypeVar

from aotbuild.runtime.worker import Worker, is_waited_for

T = TypeVar("T")
R = TypeVar("R")


def side_by_side(work: Callable[[T], R], items: Iterable[T], threads: int) -> Iterator[R]:
    """Yield what became of each item, as they are done; one alone is done in this thread.

    So are all if no thread can be started: at a limit of the system or at the end of the process.
    What `work` raises is raised here. Whoever stops iterating waits for what was begun, only.
    """
    todo = deque(items)
    count = len(todo)
    if min(count, threads) < 2:
        yield from map(work, todo)
        return
    team = _Team(work, todo)
    try:
        if not team.start(min(count, threads)):
            yield from map(work, todo)
            return
        for _ in range(count):
            yield team.next()
    finally:
        team.stop()


class _Team(Generic[T, R]):
    """Threads that take items from the left of one queue until it is empty."""

    def __init__(self, work: Callable[[T], R], todo: deque[T]) -> None:
        self._work = work
        self._todo = todo
        self._done: SimpleQueue[tuple[R] | BaseException] = SimpleQueue()
        self._threads: list[Worker] = []
        self._is_for_daemon = threading.current_thread().daemon

    def start(self, threads: int) -> bool:
        """Start as many threads as can be; return whether there is one."""
        for number in range(threads):
            # In the list first: an interrupt can come while it is started.
            self._threads.append(Worker(f"aotbuild-{number}", self._run))
            if not self._threads[-1].start():
                return number > 0
        return True

    def next(self) -> R:
        """Return what became of the next item that is done."""
        done = self._done.get()
        if isinstance(done, BaseException):
            raise done
        return done[0]

    def stop(self) -> None:
        """Begin with no other item, and wait for those that were begun."""
        self._todo.clear()
        for thread in self._threads:
            thread.wait()

    def _run(self) -> None:
        while self._is_wanted():
            try:
                item = self._todo.popleft()
            except IndexError:
                return
            try:
                self._done.put((self._work(item),))
            except BaseException as err:  # noqa: BLE001 - whatever it is, `next` raises it
                self._done.put(err)
            del item

    def _is_wanted(self) -> bool:
        """Return whether anybody waits: the end of the process waits for no daemon."""
        return not self._is_for_daemon or is_waited_for()
