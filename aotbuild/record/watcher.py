"""Watches all calls of jitted functions in this process, and writes what is new about them.

A call that was seen before costs one lookup (`Watched.key`). The first call of a signature is
described, which may take milliseconds. What an executable of a loaded package serves is no call of
a jitted function, and is not seen.
"""

from __future__ import annotations

import inspect
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from time import monotonic
from typing import Any

from aotbuild.format.wrap import FILTER_JIT
from aotbuild.record import private
from aotbuild.record.call_log import (
    ObservedCall,
    ObservedFunction,
    call_line,
    function_line,
    tally_line,
    verdict_line,
)
from aotbuild.record.calls import describe_call, has_tracers
from aotbuild.record.functions import TRANSFORMED, describe_function, describe_operation
from aotbuild.record.watched import Counted, Watched
from aotbuild.record.writer import Writer, tell

# Returns why no executable serves a call of `module:qualname`; empty if one does.
Check = Callable[[str, tuple[Any, ...], dict[str, Any]], str]

# Signatures of a function that are told apart, and the keys that lead to them.
MOST_CALLS = 10_000
_MOST_KEYS = 4 * MOST_CALLS
# Frames between the watcher and the call of a wrapper.
_MOST_FRAMES = 12
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

    def __init__(self, writer: Writer, check: Check | None = None) -> None:
        self._writer, self._check = writer, check
        self._has_reported = False
        self._begin()

    def _begin(self) -> None:
        """Begin anew, in a new process."""
        self._lock = threading.RLock()
        self._local = _OfThread()
        self._functions: dict[tuple[int, int, bool], Watched] = {}
        self._jitted: weakref.WeakKeyDictionary[Any, Watched] = weakref.WeakKeyDictionary()
        self._gone: list[Watched] = []  # of functions that the program has dropped
        self._written_functions: set[str] = set()
        self._written = monotonic()

    def start(self) -> None:
        """Watch from now on."""
        self._is_on = True
        private.listen_to_ends(self._ended)
        private.watch_calls(self._warm, self._cold)

    def stop(self) -> None:
        """Watch no more, and write what was counted."""
        self._is_on = False
        private.unwatch_calls()
        private.stop_listening_to_ends(self._ended)
        self.write_tallies()

    def after_fork(self) -> None:
        """Go on in a forked process, where other threads may have held the lock."""
        self._begin()

    # --- calls, which must not raise --------------------------------------------------------------

    def _warm(self, jitted: Any, args: tuple[Any, ...], kwargs: dict[str, Any], _: Any) -> None:
        try:
            if self._is_elsewhere():
                return
            watched = self._jitted.get(jitted)
            if watched is None:
                function, info = private.inner_function(jitted)
                if info is None:  # the dispatch of a kernel
                    return
                watched = self._jitted[jitted] = self._of_function(function, info)
            self._count(watched, args, kwargs)
        except Exception as err:  # noqa: BLE001 - watching must not break the program
            self._report(err)

    def _cold(
        self, function: Any, info: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        try:
            if not self._is_elsewhere():
                is_transformed = has_tracers(args, kwargs)
                watched = self._of_function(function, info, is_transformed=is_transformed)
                self._count(watched, args, kwargs)
        except Exception as err:  # noqa: BLE001 - as above
            self._report(err)

    def _is_elsewhere(self) -> bool:
        return not self._is_on or self._local.is_inside or private.is_tracing()

    def _count(self, watched: Watched, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Count a call; one with tracers has no signature."""
        seconds = self._take_seconds(watched)
        try:
            key = watched.key(args, kwargs)
            counted = watched.known.get(key)
        except TypeError:  # a static argument has no hash: jax refuses it, too
            return
        if counted is None:
            if watched.has_signatures and has_tracers(args, kwargs):
                return
            self._local.is_inside = True
            try:
                counted = self._first(watched, key, args, kwargs)
            finally:
                self._local.is_inside = False
        counted.calls += 1
        counted.seconds += seconds
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

    def _take_seconds(self, watched: Watched) -> float:
        """Return the seconds that jax took to compile the call that has just ended."""
        stages = self._local.stages
        if not stages:
            return 0.0
        found = private.stages_of_call(stages, watched.name)
        stages.clear()
        return sum(found.values())

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
        self, watched: Watched, key: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Counted:
        near = islice(private.frames(sys._getframe()), _MOST_FRAMES)
        called = private.wrapped_call(near) if watched.wrap else None
        if called is not None:
            args, kwargs = called.args, called.kwargs
        observed = self._observed(watched, called)
        call = self._call(watched, observed, args, kwargs)
        with self._lock:
            counted = watched.calls.get(call.key)
            if counted is None:
                counted = watched.calls[call.key] = Counted(call.key)
                self._writer.write([call_line(call)])
                if self._check and watched.has_signatures:
                    verdict = self._check(observed.call, args, kwargs)
                    self._writer.write([verdict_line(call.key, verdict)])
            if len(watched.known) >= _MOST_KEYS:
                watched.known.clear()
            watched.known[key] = counted
        return counted

    def _observed(self, watched: Watched, called: private.WrappedCall | None) -> ObservedFunction:
        wrapper: Any = called.wrapper if called else watched.function()
        found = watched.observed(wrapper, lambda: _described(watched, called))
        with self._lock:
            if found.key not in self._written_functions:
                self._written_functions.add(found.key)
                self._writer.write([function_line(found)])
        return found

    def _call(
        self,
        watched: Watched,
        observed: ObservedFunction,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> ObservedCall:
        if not watched.has_signatures:
            return ObservedCall(observed.key, ())
        if len(watched.calls) >= MOST_CALLS:
            return ObservedCall(observed.key, (), problem=_TOO_MANY)
        return describe_call(observed, args, kwargs, watched.info)

    def write_tallies(self) -> None:
        """Write what was counted since the last time."""
        with self._lock:
            self._written = monotonic()
            gone, self._gone = self._gone, []
            watched = [*self._functions.values(), *gone]
            pairs = [(each.key, each.take()) for w in watched for each in [*w.calls.values()]]
            self._writer.write([tally_line(key, tally) for key, tally in pairs if tally])


def _described(watched: Watched, called: private.WrappedCall | None) -> ObservedFunction:
    function = watched.function()
    if watched.is_operation:
        return describe_operation(function)
    if called is None:
        found = describe_function(function, watched.info)
    else:
        # equinox gives its own function to jax.jit, with other arguments.
        info = None if called.wrap == FILTER_JIT else watched.info
        found = describe_function(inspect.unwrap(called.wrapper), info, called.wrap, called.wrapper)
    return replace(found, problem=TRANSFORMED) if watched.is_transformed else found
