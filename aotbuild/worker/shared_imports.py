"""Jobs of the same modules share the processes that import them; each job runs in a fork of one.

Importing is most of what a process costs before it runs a job. A worker imports jax once. From it
come two processes that import a job's modules, one for the first trace and one for the second
(worker.purity). Each forks once for a job: whatever a job patches, sets or keeps is gone with its
fork. XLA starts its threads when jax makes a client of a device, which only forks do.

An import may leave what forks would lack or share: a thread, an open file, a child process, an
object to finalize, a handler of SIGCHLD. A process with such an import serves one job, itself.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import signal
import socket
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, NoReturn, Protocol

from aotbuild.worker.forks import (
    adopt_orphans,
    children_of,
    closed_text,
    end_as,
    end_orphans,
    fix_random_numbers,
    fork,
    kill,
    leave,
    wait,
    was_written_to,
    without_stack,
)


class Work(Protocol):
    """What the processes of a worker do. A request is a line; `modules` are what it imports."""

    def prepare(self) -> None:
        """Do what all requests need, before the first fork."""

    def modules(self, line: str) -> tuple[str, ...]:
        """Return the modules of a request. Requests of equal ones share their imports."""

    def load(self, modules: tuple[str, ...], *, is_second: bool) -> None:
        """Import some modules, in a process for first traces or in one for second traces."""

    def serve(self, line: str, second: socket.socket) -> None:
        """Serve a request; the other end of `second` is that of `serve_second`."""

    def serve_second(self, first: socket.socket) -> None:
        """Serve what the process of a request asks of its second one."""


def serve_in_forks(lines: IO[str], work: Work) -> None:
    """Serve each request in a process of its own, until the lines end or a process fails.

    Where a process ends before it has served its request, this one ends as it did, with its exit
    code or signal. Processes that a request has started and left are killed.
    """
    importer: _Importer | None = None
    is_prepared = False
    while line := lines.readline():
        if not is_prepared:
            work.prepare()
            adopt_orphans()
            gc.freeze()  # forks then neither walk through jax's objects nor copy them
            is_prepared = True
        modules = work.modules(line)
        if importer and importer.modules != modules:
            importer.end()
            importer = None
        importer = importer or _Importer(work, modules)
        if not importer.serve(line):
            importer = None
    if importer:
        importer.end()


class _Importer:
    """The process that imports some modules for first traces, as its parent sees it."""

    def __init__(self, work: Work, modules: tuple[str, ...]) -> None:
        self.modules = modules
        mine, its = socket.socketpair()
        self._child = fork()
        if self._child == 0:
            mine.close()
            try:
                _serve_requests(its, work, modules)
            except OSError as err:
                sys.exit(closed_text(err))
        its.close()
        self._stream = mine.makefile("rw", encoding="utf-8")
        self._kind = ""

    def serve(self, line: str) -> bool:
        """Have a request served; return whether the process may serve another one."""
        with contextlib.suppress(OSError):  # it has ended, as `readline` will tell
            self._stream.write(line)
            self._stream.flush()
        with without_stack():
            self._kind = self._kind or self._read()
            # What the user's code has started may have the stream of an `alone` process open.
            status = wait(self._child) if self._kind in ("", _ALONE) else None
            is_served = self._read() == _SERVED
        if status is not None:
            end_orphans()
        if not is_served:
            end_as(wait(self._child) if status is None else status)
        return status is None

    def _read(self) -> str:
        """Return the next line; empty if the process has ended."""
        try:
            return self._stream.readline()
        except ConnectionError:  # it has left something unread
            return ""

    def end(self) -> None:
        """End the process, after the functions that its imports have registered with atexit."""
        self._stream.close()
        wait(self._child)
        end_orphans()


# What an importer says: how it serves requests, then after each that it is served.
_IN_FORKS, _ALONE, _SERVED = "in forks\n", "alone\n", "served\n"


def _serve_requests(parent: socket.socket, work: Work, modules: tuple[str, ...]) -> NoReturn:
    """Import some modules, and serve each request in a fork, or one in this process."""
    adopt_orphans()
    fix_random_numbers()
    second = _Second(work, modules)
    imported = _Imported(work, modules, is_second=False)
    stream = parent.makefile("rw", encoding="utf-8")
    is_shared = second.is_shared() and imported.is_shared(second.process)
    stream.write(_IN_FORKS if is_shared else _ALONE)
    stream.flush()
    while line := stream.readline():
        if not is_shared:
            work.serve(line, second.ask())
            stream.write(_SERVED)
            stream.flush()
            leave()
        reading, writing = os.pipe()
        child = fork()
        if child == 0:
            os.close(reading)
            stream.close()
            parent.close()
            imported.leave_exits()
            work.serve(line, second.ask())
            os.write(writing, b"1")
            leave()
        os.close(writing)
        status = wait(child)
        is_served = was_written_to(reading)
        second.end_request()
        end_orphans(second.process)
        if not is_served:
            end_as(status)
        stream.write(_SERVED)
        stream.flush()
    second.end()
    leave()


class _Second:
    """The process that imports some modules for second traces, as the one for the first sees it."""

    def __init__(self, work: Work, modules: tuple[str, ...]) -> None:
        self._socket, its = socket.socketpair()
        self.process = fork()
        if self.process == 0:
            self._socket.close()
            _serve_second_traces(its, work, modules)
        its.close()

    def is_shared(self) -> bool:
        """Wait until it has imported them, and return whether it serves in forks."""
        return self._socket.recv(1) == b"1"

    def ask(self) -> socket.socket:
        """Return this end of a stream, the other one is given to a new process for the trace."""
        mine, its = socket.socketpair()
        with its, contextlib.suppress(OSError):  # it has ended, which the stream tells
            socket.send_fds(self._socket, [b"1"], [its.fileno()])
        return mine

    def end_request(self) -> None:
        """End the fork for a request, which may still be at work."""
        kill(children_of(self.process))

    def end(self) -> None:
        """End the process, after the functions that its imports have registered with atexit."""
        self._socket.close()
        wait(self.process)


def _serve_second_traces(first: socket.socket, work: Work, modules: tuple[str, ...]) -> NoReturn:
    """Import some modules, and serve each second trace in a fork, or one in this process."""
    adopt_orphans()
    with Path(os.devnull).open("r+b") as nothing:  # the first process prints the same
        os.dup2(nothing.fileno(), 1)
        os.dup2(nothing.fileno(), 2)
    imported = _Imported(work, modules, is_second=True)
    is_shared = imported.is_shared()
    first.send(b"1" if is_shared else b"0")
    while given := socket.recv_fds(first, 1, 1)[1]:
        with socket.socket(fileno=given[0]) as stream:
            if not is_shared:
                work.serve_second(stream)
                leave()
            child = fork()
            if child == 0:
                first.close()
                imported.leave_exits()
                work.serve_second(stream)
                leave()
            status = wait(child)
            end_orphans()
            if status:
                with contextlib.suppress(OSError):  # nobody waits for it
                    stream.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    leave()


class _Imported:
    """Modules that this process has imported, and what they have left in it."""

    def __init__(self, work: Work, modules: tuple[str, ...], *, is_second: bool) -> None:
        self._exits: list[Callable[..., Any]] = []
        before = _left()
        register = atexit.register

        def note(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            self._exits.append(function)
            return register(function, *args, **kwargs)

        atexit.register = note  # type: ignore[assignment]
        try:
            work.load(modules, is_second=is_second)
        finally:
            atexit.register = register
        self._is_plain = before == _left()
        gc.freeze()

    def is_shared(self, own_child: int = 0) -> bool:
        """Return whether forks of this process have all that the imports have made."""
        if not self._is_plain or set(children_of()) != {own_child} - {0}:
            return False
        if _threads() != 1:
            # Those of OpenBLAS end before a fork, and start again when they are needed.
            child = fork()
            if child == 0:
                os._exit(0)
            wait(child)
        return _threads() == 1

    def leave_exits(self) -> None:
        """Leave what the imports registered with atexit to the process that imported them."""
        for function in self._exits:
            atexit.unregister(function)


def _left() -> tuple[object, ...]:
    """Return what forks of this process would share or lack, but for threads and children."""
    finalizers = len(weakref.finalize._registry)  # type: ignore[attr-defined]
    return _open_files(), finalizers, signal.getsignal(signal.SIGCHLD)


def _open_files() -> dict[str, str]:
    """Return what each open file is, by its descriptor; empty where the system does not say it."""
    found = {}
    folder = Path("/proc/self/fd")
    for path in folder.iterdir() if folder.is_dir() else ():
        with contextlib.suppress(OSError):  # that of the list itself
            found[path.name] = str(path.readlink())
    return found


def _threads() -> int:
    """Return the number of threads; 0 where the system does not say it."""
    folder = Path("/proc/self/task")
    return len(list(folder.iterdir())) if folder.is_dir() else 0
