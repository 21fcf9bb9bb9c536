"""Threads: single flight, a thread that survives Ctrl-C while it is joined, and a parallel map."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from aotbuild.errors import AotbuildError

R = TypeVar("R")
T = TypeVar("T")
V = TypeVar("V")

_NOT_MADE = object()


# The threads that make something now, each as often as it makes something.
_makers: list[int] = []
_parent: int | None = None


@contextmanager
def making() -> Iterator[None]:
    """Make something that a fork must not cut into two: imports, clients, loaded executables.

    A process that was forked meanwhile has the locks of the thread that does it, but not the
    thread. So it may make nothing: AotbuildError. A signal handler that interrupted an import of
    the same thread finds a module that is half there: AotbuildError, too.
    """
    refuse_if_cut_off()
    thread = threading.get_ident()
    _makers.append(thread)
    try:
        yield
    except (ImportError, AttributeError) as err:
        _explain_if_half_imported(err)
        raise
    finally:
        _makers.remove(thread)


def refuse_if_cut_off() -> None:
    """Raise AotbuildError if this process was forked while another thread made something."""
    if _parent is not None:
        msg = (
            "nothing can be loaded in a process that was forked during a first call\n"
            "  expected no other thread to load anything at the fork\n"
            f"  found    process {os.getpid()}, forked from {_parent}, whose other thread did\n"
            "Make the first call in the new process (with gunicorn in post_worker_init), or start "
            "it with spawn or forkserver."
        )
        raise AotbuildError(msg)


# What Python says of a module that the same thread is importing, and whose modules calls import.
_HALF_IMPORTED = "partially initialized module '"
_IMPORTED = ("aotbuild", "jax", "jaxlib", "ml_dtypes", "numpy")


def _explain_if_half_imported(err: Exception) -> None:
    module = str(err).partition(_HALF_IMPORTED)[2].partition("'")[0]
    if module.partition(".")[0] in _IMPORTED:
        msg = (
            "nothing can be loaded by a signal handler that interrupts an import\n"
            "  expected no module that this thread is importing\n"
            f"  found    {module}, which the interrupted code is importing\n"
            "Call a function of this package once, or its preload(), before handlers may call."
        )
        raise AotbuildError(msg) from err


def _after_fork_in_child() -> None:
    global _parent, _process
    own = threading.get_ident()
    if any(thread != own for thread in _makers):
        _parent = _process
    _makers[:] = [thread for thread in _makers if thread == own]
    # Not `getppid`: the parent of a daemon may have exited already.
    _process = os.getpid()


_process = os.getpid()
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork_in_child)


# Seconds after which a thread that waits looks again: at first, and at most.
_LOOK_AGAIN, _LOOK_SELDOM = 0.01, 1.0


class _Hold:
    """A thread that has a lock; `over` is locked until it gives the lock back."""

    __slots__ = ("over", "thread")

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.over = threading.Lock()
        self.over.acquire()


# The threads that each thread waits for: several, if a signal handler interrupted it meanwhile.
_awaited: dict[int, list[int]] = {}


@contextmanager
def waiting_for(threads: Iterable[int | None]) -> Iterator[None]:
    """Say that this thread waits for others while the block runs; `SafeLock` looks at that."""
    awaited = _awaited.setdefault(threading.get_ident(), [])
    depth = len(awaited)
    try:
        awaited += [thread for thread in threads if thread is not None]
        yield
    finally:
        del awaited[depth:]


class SafeLock:
    """A reentrant lock that is not waited for where that would never end.

    Signal handlers and finalizers run in the middle of other code. If one wants a lock whose thread
    waits for what the interrupted code holds, a plain lock waits forever. This one then lets the
    block run as well, so what it protects must stand being done twice.
    """

    @contextmanager
    def held(self) -> Iterator[None]:
        """Run a block while no other thread runs one, unless waiting for that would never end.

        AotbuildError in a process that was forked while another thread made something.
        """
        own = _Hold()
        with making():
            try:
                self._take(own)
                yield
            finally:
                if vars(self).get("hold") is own:
                    del vars(self)["hold"]
                own.over.release()

    def _take(self, own: _Hold) -> None:
        patience = _LOOK_AGAIN
        # `setdefault` takes the lock, or returns who has it, in one step.
        while (hold := vars(self).setdefault("hold", own)) is not own:
            # First wait, then look: of two threads that begin to wait, one sees the other.
            with waiting_for([hold.thread]):
                if _waits_for(hold.thread, own.thread):
                    return
                if hold.over.acquire(timeout=patience):
                    hold.over.release()
            # Whoever has it may begin to wait for this thread only later.
            patience = min(2 * patience, _LOOK_SELDOM)


def _waits_for(thread: int, other: int) -> bool:
    """Return whether a thread is another one, or waits for it, directly or not."""
    seen: set[int] = set()
    threads = [thread]
    while threads:
        each = threads.pop()
        if each == other:
            return True
        if each not in seen:
            seen.add(each)
            threads += _awaited.get(each, ())
    return False


class _Entry(SafeLock):
    def __init__(self) -> None:
        self.value: Any = _NOT_MADE


class SingleFlight(Generic[V]):
    """A cache that makes each value once, with one lock per key.

    A failure is not cached: the next caller tries again. A value is made twice only where waiting
    for the first would never end; then the first that is there is kept. In a process that was
    forked while another thread made a value, `get` raises AotbuildError for what is not made.
    """

    def __init__(self) -> None:
        self._entries: dict[Hashable, _Entry] = {}

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        """Return the value of `key`; call `make` if there is none."""
        entry = self._entries.setdefault(key, _Entry())
        if entry.value is _NOT_MADE:
            with entry.held():
                if entry.value is _NOT_MADE:
                    made = make()
                    # A re-entrant call may have filled the entry; keep that value.
                    if entry.value is _NOT_MADE:
                        entry.value = made
        value: V = entry.value
        return value

    def __contains__(self, key: Hashable) -> bool:
        entry = self._entries.get(key)
        return entry is not None and entry.value is not _NOT_MADE

    def forget(self, key: Hashable) -> None:
        """Drop the value of `key`, if there is one."""
        self._entries.pop(key, None)

    def keep_last(self, count: int, which: Callable[[Any], bool]) -> None:
        """Drop all but the last `count` entries whose keys are of a kind; takes no lock."""
        keys = [key for key in list(self._entries) if which(key)]
        for key in keys[: max(0, len(keys) - count)]:
            self.forget(key)

    def clear(self) -> None:
        """Drop every value."""
        self._entries.clear()

    def values(self) -> list[V]:
        """Return every value that is made; takes no lock."""
        values = [entry.value for entry in list(self._entries.values())]
        return [value for value in values if value is not _NOT_MADE]

    def __len__(self) -> int:
        return len(self.values())


_threads: WeakSet[threading.Thread] = WeakSet()


class JoinableThread:
    """A thread that can be joined again after KeyboardInterrupt. `work` must not raise.

    It is not a daemon: a thread inside XLA while the interpreter shuts down crashes the process.
    `wait` does not call `Thread.join`: before Python 3.13, a `join` that Ctrl-C interrupts marks
    the thread as ended, and then the interpreter no longer waits for it at exit
    (https://github.com/python/cpython/issues/90882).
    """

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        self._work = work
        self._process = os.getpid()
        self._started = False
        self._finished = threading.Event()
        # Explicit, because a thread inherits the flag from the daemon that starts it.
        self._thread = threading.Thread(target=self._run, name=name, daemon=False)
        _threads.add(self._thread)

    def start(self) -> bool:
        """Start it; return False at a limit of the system or at the end of the process."""
        try:
            self._thread.start()
        except RuntimeError:
            return False
        self._started = True
        return True

    @property
    def ended(self) -> bool:
        """Whether it does not run in this process: it ended or was never started.

        In a forked process the threads of the parent do not run.
        """
        return not self._started or self._process != os.getpid() or self._finished.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it ends, at most `timeout` seconds; return whether it has ended."""
        if self.ended:
            return True
        with waiting_for([self.number]):
            return self._finished.wait(timeout)

    @property
    def number(self) -> int | None:
        """What `threading.get_ident` gives in it; None until it is started."""
        return self._thread.ident

    def _run(self) -> None:
        try:
            # Ctrl-C may interrupt `start` after the thread is running.
            self._started = True
            self._work()
        finally:
            self._finished.set()


def has_foreground_thread() -> bool:
    """Return whether a thread is alive that keeps the process running and is not one of ours.

    It need not be the main thread: that one may have ended and left a server's threads running.
    """
    return any(
        thread.is_alive() and not thread.daemon and thread not in _threads
        for thread in threading.enumerate()
    )


def parallel_map(work: Callable[[T], R], items: Iterable[T], threads: int) -> Iterator[R]:
    """Yield `work(item)` for each item, in the order in which they finish.

    A single item is done in the calling thread. So are all of them if no thread can be started. An
    exception in `work` is raised here. If the caller stops iterating, items that were begun are
    finished and no other is begun.
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
        self._threads: list[JoinableThread] = []
        self._is_for_daemon = threading.current_thread().daemon

    def start(self, threads: int) -> bool:
        """Start up to `threads` threads; return whether at least one runs."""
        for number in range(threads):
            # Append before starting: an interrupt can come in between.
            self._threads.append(JoinableThread(f"aotbuild-{number}", self._run))
            if not self._threads[-1].start():
                return number > 0
        return True

    def next(self) -> R:
        """Return the next result, or raise the next exception."""
        with waiting_for(thread.number for thread in self._threads):
            done = self._done.get()
        if isinstance(done, BaseException):
            raise done
        return done[0]

    def stop(self) -> None:
        """Begin no other item, and wait for those that were begun."""
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
            except BaseException as err:  # noqa: BLE001 - `next` raises it
                self._done.put(err)
            del item

    def _is_wanted(self) -> bool:
        """Return whether the caller can still want a result; a daemon may die with the process."""
        return not self._is_for_daemon or has_foreground_thread()
