"""Threads: a value made once for each key, a parallel map, a thread that can be joined again."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from queue import SimpleQueue
from typing import Any, Generic, TypeVar
from weakref import WeakSet

V = TypeVar("V")


class _Entry:
    __slots__ = ("lock", "value")

    def __init__(self) -> None:
        # A signal handler or a finalizer may come in the middle, and need the same.
        self.lock = threading.RLock()
        self.value: Any = _NOT_MADE


_NOT_MADE = object()


class Once(Generic[V]):
    """A cache with one lock a key. A failure is not kept: the next caller tries again."""

    def __init__(self) -> None:
        self._entries: dict[Hashable, _Entry] = {}

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        """Return the value of `key`, made by `make` if it is not there."""
        entry = self._entries.setdefault(key, _Entry())
        with entry.lock:
            if entry.value is _NOT_MADE:
                made = make()
                # What such a one was given meanwhile stays the only one.
                if entry.value is _NOT_MADE:
                    entry.value = made
            value: V = entry.value
            return value

    def __contains__(self, key: Hashable) -> bool:
        entry = self._entries.get(key)
        return entry is not None and entry.value is not _NOT_MADE

    def forget(self, key: Hashable) -> None:
        """Forget the value of `key`, if there is one."""
        self._entries.pop(key, None)

    def clear(self) -> None:
        """Forget every value."""
        self._entries.clear()

    def __len__(self) -> int:
        return sum(entry.value is not _NOT_MADE for entry in list(self._entries.values()))


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
