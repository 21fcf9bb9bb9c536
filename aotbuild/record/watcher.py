"""Watches all calls of jitted functions in this process, and writes what is new about them.

A call that was seen before costs one lookup (`Watched.key`), or none: where the C++ dispatch has
one entry only, a call that it serves is of that signature. The first call of a signature is
described, which may take milliseconds.
"""

from __future__ import annotations

import inspect
import itertools
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from time import monotonic
from typing import Any

from aotbuild.format.canonical import as_utf8
from aotbuild.format.dist_info import installed_version
from aotbuild.format.signature import Function
from aotbuild.format.wrap import FILTER_JIT
from aotbuild.record import private
from aotbuild.record.calls import describe_call, has_tracers
from aotbuild.record.functions import (
    TRANSFORMED,
    describe_function,
    describe_operation,
    describe_pmapped,
)
from aotbuild.record.kernels import KernelCall, KernelCalls, KernelOptions, describe_kernel
from aotbuild.record.recording import (
    Program,
    RecordedCall,
    RecordedFunction,
    call_line,
    function_line,
    program_line,
    tally_line,
)
from aotbuild.record.watched import Counted, Watched
from aotbuild.record.writer import Writer, tell
from aotbuild.runtime.library import watch_kernels

# Signatures of a function that are told apart, and the keys that lead to them.
MOST_CALLS = 10_000
_MOST_KEYS = 4 * MOST_CALLS
_NO_SECONDS: Mapping[str, float] = {}
# Seconds between two writes of tallies.
_TICK = 1.0
_TOO_MANY = f"it was called with more than {MOST_CALLS:,} signatures; the others are not told apart"


class _OfThread(threading.local):
    """What this thread is doing.

    Attributes:
        is_inside: Whether it is describing a call.
        stages: The last stages that ended in it: name, function, seconds.
    """

    is_inside = False

    def __init__(self) -> None:
        self.stages: deque[private.Stage] = deque(maxlen=8)


class Watcher:
    """Watches this process. There is one at most."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._lock = threading.RLock()
        self._local = _OfThread()
        self._has_reported = False
        self._forget()

    def _forget(self) -> None:
        """Begin anew, in a new process."""
        self._functions: dict[tuple[int, int, bool], Watched] = {}
        self._jitted: weakref.WeakKeyDictionary[Any, Watched] = weakref.WeakKeyDictionary()
        self._gone: list[Watched] = []  # of functions that the program has dropped
        self._told: set[str] = set()
        # Calls that the C++ dispatch did not serve; of a counter, as threads add to it.
        self._misses = itertools.count(1)
        self._missed = 0
        self._written, self._has_begun = monotonic(), False

    def start(self) -> None:
        """Watch from now on."""
        self._is_on = True
        private.listen_to_ends(self._ended)
        private.watch_calls(self._warm, self._cold)
        self._kernels = KernelCalls(self._of_kernel)
        watch_kernels(self._kernels.watch)

    def stop(self) -> None:
        """Watch no more, and write what was counted."""
        self._is_on = False
        watch_kernels(None)
        private.unwatch_calls()
        private.stop_listening_to_ends(self._ended)
        self.write_tallies()

    def after_fork(self) -> None:
        """Go on in a forked process, where other threads may have held the lock."""
        self._lock = threading.RLock()
        self._local = _OfThread()
        self._forget()

    # --- calls, which must not raise --------------------------------------------------------------

    def _warm(self, jitted: Any, args: tuple[Any, ...], kwargs: dict[str, Any], _: Any) -> None:
        try:
            if self._is_elsewhere() or self._kernels.is_inside(args):
                return
            watched, missed = self._jitted.get(jitted), self._missed
            if watched is None:
                function, info = private.inner_function(jitted)
                if info is None:  # a kernel whose dispatch somebody called directly
                    return
                watched = self._jitted[jitted] = self._of_function(function, info)
            only = watched.only
            if only is not None and only[0] == missed and private.entries(jitted) == 1:
                self._add(only[1], _NO_SECONDS)
                return
            counted = self._count(watched, args, kwargs)
            if counted and not watched.has_statics and private.entries(jitted) == 1:
                watched.only = missed, counted
        except Exception as err:  # noqa: BLE001 - watching must not break the program
            self._report(err)

    def _cold(
        self, function: Any, info: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self._missed = next(self._misses)
        try:
            # The fallback of a kernel compiles: the kernel's call has the stages.
            if not self._is_elsewhere() and not self._kernels.is_inside():
                watched = self._of_function(
                    function, info, is_transformed=has_tracers(args, kwargs)
                )
                self._count(watched, args, kwargs)
        except Exception as err:  # noqa: BLE001 - as above
            self._report(err)

    def _of_kernel(self, function: Function, options: KernelOptions, call: KernelCall) -> None:
        try:
            if not self._is_elsewhere():
                watched = self._of_function(function, options)
                self._count(watched, call.args, call.kwargs, call)
        except Exception as err:  # noqa: BLE001 - as above
            self._report(err)

    def _is_elsewhere(self) -> bool:
        return not self._is_on or self._local.is_inside or private.is_tracing()

    def _count(
        self,
        watched: Watched,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        of_kernel: KernelCall | None = None,
    ) -> Counted | None:
        """Count a call, and return where; None for one with tracers."""
        stages = self._take_stages(watched)
        try:
            key = watched.key(args, kwargs, of_kernel.dispatched if of_kernel else None)
            counted = watched.known.get(key)
        except TypeError:  # a static argument has no hash: jax refuses it, too
            key = counted = None
        if counted is None:
            if watched.has_signatures and has_tracers(args, kwargs):
                return None
            self._local.is_inside = True
            try:
                results = of_kernel.outputs if of_kernel else None
                counted = self._first(watched, key, args, kwargs, results)
            finally:
                self._local.is_inside = False
        self._add(counted, stages)
        return counted

    def _add(self, counted: Counted, seconds: Mapping[str, float]) -> None:
        counted.add(seconds)
        if seconds or monotonic() - self._written > _TICK:
            self.write_tallies()

    def _report(self, err: Exception) -> None:
        if not self._has_reported:
            self._has_reported = True
            tell(f"a call was not recorded: {type(err).__name__}: {err}")

    # --- times ------------------------------------------------------------------------------------

    def _ended(self, event: str, seconds: float, **facts: Any) -> None:
        stage = private.ENDS.get(event)
        if stage and self._is_on and not self._local.is_inside:
            self._local.stages.append((stage, str(facts.get("fun_name", "")), seconds))

    def _take_stages(self, watched: Watched) -> dict[str, float]:
        """Return the seconds of the stages of the call that has just ended."""
        stages = self._local.stages
        if not stages:
            return {}
        if watched.name:
            found = private.stages_of_call(stages, watched.name)
        else:
            found = {}
            for stage, _, seconds in stages:
                found[stage] = found.get(stage, 0.0) + seconds
        stages.clear()
        return found

    # --- what is new ------------------------------------------------------------------------------

    def _of_function(self, function: Any, info: Any, *, is_transformed: bool = False) -> Watched:
        key = id(function), id(info), is_transformed
        watched = self._functions.get(key)
        if watched is None:
            gone = lambda _: self._drop(key)  # noqa: E731
            made = Watched(function, info, gone, is_transformed=is_transformed)
            watched = self._functions.setdefault(key, made)
        return watched

    def _drop(self, key: tuple[int, int, bool]) -> None:
        """Forget a function that the program has dropped; its tallies are written with the next."""
        watched = self._functions.pop(key, None)
        if watched is not None:
            watched.known.clear()
            self._gone.append(watched)

    def _first(
        self,
        watched: Watched,
        key: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        results: Any,
    ) -> Counted:
        called = private.wrapped_call() if watched.wrap else None
        if called is not None:
            args, kwargs = called.args, called.kwargs
        recorded = self._recorded(watched, called)
        call = self._call(watched, recorded, args, kwargs, results)
        with self._lock:
            counted = watched.calls.get(call.key)
            if counted is None:
                counted = watched.calls[call.key] = Counted(call.key)
                self._write([call_line(call)])
            if len(watched.known) >= _MOST_KEYS:
                watched.known.clear()
            if key is not None:
                watched.known[key] = counted
        return counted

    def _recorded(self, watched: Watched, called: private.WrappedCall | None) -> RecordedFunction:
        wrapper: Any = called.wrapper if called else watched.function()
        found = watched.recorded(wrapper, lambda: _describe(watched, called))
        with self._lock:
            if found.key not in self._told:
                self._told.add(found.key)
                self._write([function_line(found)])
        return found

    def _call(
        self,
        watched: Watched,
        recorded: RecordedFunction,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        results: Any,
    ) -> RecordedCall:
        if not watched.has_signatures:
            return RecordedCall(recorded.key, ())
        if len(watched.calls) >= MOST_CALLS:
            return RecordedCall(recorded.key, (), problem=_TOO_MANY)
        return describe_call(recorded, args, kwargs, watched.info, results)

    # --- writing ----------------------------------------------------------------------------------

    def write_tallies(self) -> None:
        """Write what was counted since the last time."""
        with self._lock:
            self._written = monotonic()
            gone, self._gone = self._gone, []
            watched = [*self._functions.values(), *gone]
            pairs = [(each.key, each.take()) for w in watched for each in [*w.calls.values()]]
            self._write([tally_line(key, tally) for key, tally in pairs if tally])

    def _write(self, lines: list[bytes]) -> None:
        if not lines:
            return
        if not self._has_begun:
            self._has_begun = True
            lines = [program_line(_program()), *lines]
        self._writer.write(lines)


def _describe(watched: Watched, called: private.WrappedCall | None) -> RecordedFunction:
    found = _described(watched, called)
    return replace(found, problem=TRANSFORMED) if watched.is_transformed else found


def _described(watched: Watched, called: private.WrappedCall | None) -> RecordedFunction:
    function = watched.function()
    if isinstance(function, Function):
        return describe_kernel(function)
    if watched.is_operation:
        return describe_operation(function)
    if watched.is_pmapped:
        return describe_pmapped(private.pmapped_function(function))
    if called is None:
        return describe_function(function, watched.info)
    # equinox gives its own function to jax.jit, with other arguments.
    info = None if called.wrap == FILTER_JIT else watched.info
    return describe_function(inspect.unwrap(called.wrapper), info, called.wrap, called.wrapper)


def _program() -> Program:
    now = datetime.now(UTC)
    versions = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in ("jax", "jaxlib", "aotbuild"):
        versions[name] = installed_version(name) or ""
    key = f"{os.uname().nodename}:{os.getpid()}:{now.timestamp():.6f}"
    started = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    # Arguments may be secrets, and a recording is kept.
    return Program(key, tuple(map(as_utf8, sys.argv[:1])), versions, private.platform(), started)
