"""Watches all calls of jitted functions in this process, and writes what is new about them.

A call that was seen before costs one lookup (`Watched.key`). The first call of a signature is
described, which may take milliseconds. Not watched are calls inside of a trace, and what an
executable of a loaded package serves. Of jax's own operations, and of calls inside of an eager
transformation, only the line of the program that runs them is counted.
"""

from __future__ import annotations

import inspect
import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from threading import get_ident
from time import monotonic
from typing import Any

from aotbuild.format.wrap import FILTER_JIT
from aotbuild.record import private
from aotbuild.record.call_log import CallLogWriter, ObservedCall, ObservedFunction, log_line, tell
from aotbuild.record.calls import describe_call, has_tracers
from aotbuild.record.functions import describe_function, is_of_jax
from aotbuild.record.guard_message import caller_of

# Returns why no executable serves a call of `module:qualname`; empty if one does.
CallCheck = Callable[[str, tuple[Any, ...], dict[str, Any]], str]

# Signatures of a function that are told apart, and the keys that lead to them.
MOST_CALLS = 10_000
_MOST_KEYS = 4 * MOST_CALLS
# Frames between the watcher and the call of a wrapper.
_MOST_FRAMES = 12
# Seconds between two writes of tallies.
_TICK = 1.0
_TOO_MANY = f"it was called with more than {MOST_CALLS:,} signatures; the others are not told apart"


@dataclass
class Counted:
    """A signature and what was counted since its tally was written."""

    key: str
    calls: int = 0
    seconds: float = 0.0

    def take(self, kind: str) -> bytes:
        """Return the line of a call log, and begin anew; empty if nothing happened."""
        calls, seconds = self.calls, self.seconds
        if not (calls or seconds):
            return b""
        # What another thread adds meanwhile is kept.
        self.calls -= calls
        self.seconds -= seconds
        return log_line(kind, of=self.key, calls=calls, seconds=seconds)


class Watched:
    """One function under one jit. It does not keep the function alive.

    Attributes:
        function: Returns the function inside the jit; None once the program has dropped it.
        info: The options of the jit.
        wrap: The jit whose meaning its calls have; empty for that of jax.
        is_ignored: Whether it is jax's own.
        calls: What was counted of each signature, by the key of its `ObservedCall`.
        known: The same, by what tells calls apart without describing them.
    """

    def __init__(self, function: Any, info: Any, gone: Callable[[Any], None]) -> None:
        """Watch a function; `gone` is called with a dead reference when the program drops it."""
        self.function = _reference(function, gone)
        self.info = info
        self.wrap = private.wrap_of(function)
        self.is_ignored = not self.wrap and is_of_jax(function)
        self.known: dict[Any, Counted] = {}
        self.calls: dict[str, Counted] = {}
        # What the jit takes as static, by position and by name.
        self._positions = tuple(getattr(info, "static_argnums", ()))
        self._names = frozenset(getattr(info, "static_argnames", ()))
        self._with_shardings = private.device_count() > 1
        # By the identity of what the program called, if it is not what `jax.jit` returned.
        self._observed: dict[int, tuple[Callable[[], Any], ObservedFunction]] = {}

    def key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what tells signatures apart: what jax itself looks at, and the values of statics.

        An array is known by its aval, of which jax has one object only. To jax, 1 and True are one
        static value.
        """
        statics: tuple[Any, ...] = ()
        if self._positions or self._names:
            statics = (
                *((i, type(args[i]), args[i]) for i in self._positions if i < len(args)),
                *((n, type(kwargs[n]), kwargs[n]) for n in sorted(self._names & kwargs.keys())),
            )
            args = tuple(None if i in self._positions else arg for i, arg in enumerate(args))
            kwargs = {n: each for n, each in kwargs.items() if n not in self._names}
        leaves, treedef = private.flatten((args, kwargs))
        keys = private.leaf_keys(leaves, with_shardings=self._with_shardings)
        return treedef, keys, statics, private.trace_context()

    def observed(self, called: private.WrappedCall | None) -> ObservedFunction:
        """Return what is written of the function, as it is called.

        equinox has one function for all wrappers of equal names.
        """
        wrapper: Any = called.wrapper if called else self.function()
        found = self._observed.get(id(wrapper))
        # An object of an identity may be gone, and another one have it.
        if found is None or found[0]() is not wrapper:
            if called is None:
                described = describe_function(wrapper, self.info)
            else:
                # equinox gives its own function to jax.jit, with other arguments.
                info = None if called.wrap == FILTER_JIT else self.info
                described = describe_function(inspect.unwrap(wrapper), info, called.wrap, wrapper)
            found = self._observed[id(wrapper)] = _reference(wrapper), described
        return found[1]


class Watcher:
    """Watches this process. There is one at most."""

    def __init__(self, writer: CallLogWriter, check: CallCheck | None = None) -> None:
        self._writer, self._check = writer, check
        self._has_reported = False
        self.begin()

    def begin(self) -> None:
        """Begin anew, also in a forked process, where other threads may have held the lock."""
        self._lock = threading.RLock()
        self._describing: set[int] = set()  # the threads that are describing a call
        self._functions: dict[tuple[int, int], Watched] = {}
        self._jitted: weakref.WeakKeyDictionary[Any, Watched] = weakref.WeakKeyDictionary()
        self._gone: list[Watched] = []  # of functions that the program has dropped
        self._written_functions: set[str] = set()
        self._outside: dict[str, Counted] = {}  # by the line that runs operations
        self._passed: set[str] = set()  # those lines, since the last call of a jitted function
        self._written = monotonic()

    def start(self) -> None:
        """Watch from now on."""
        self._is_on = True
        private.watch_calls(self._warm, self._cold)

    def stop(self) -> None:
        """Watch no more, and write what was counted."""
        self._is_on = False
        private.unwatch_calls()
        self.write_tallies()

    # --- calls, which must not raise --------------------------------------------------------------

    def _warm(self, jitted: Any, args: tuple[Any, ...], kwargs: dict[str, Any], _: Any) -> None:
        try:
            if self._is_elsewhere():
                return
            watched = self._jitted.get(jitted)
            if watched is None:
                function, info = private.inner_function(jitted)
                if info is None:  # the dispatch of a kernel
                    self._passed.clear()
                    return
                watched = self._jitted[jitted] = self._of_function(function, info)
            self._count(watched, args, kwargs)
        except Exception as err:  # noqa: BLE001 - watching must not break the program
            self._report(err)

    def _cold(
        self,
        function: Any,
        info: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        seconds: float,
    ) -> None:
        try:
            if not self._is_elsewhere():
                self._count(self._of_function(function, info), args, kwargs, seconds)
        except Exception as err:  # noqa: BLE001 - as above
            self._report(err)

    def _is_elsewhere(self) -> bool:
        return not self._is_on or get_ident() in self._describing or private.is_tracing()

    def _count(
        self, watched: Watched, args: tuple[Any, ...], kwargs: dict[str, Any], seconds: float = 0.0
    ) -> None:
        """Count a call, or where it is outside of any jit; one with tracers has no signature."""
        if watched.is_ignored:
            self._count_outside(seconds)
            return
        try:
            key = watched.key(args, kwargs)
            counted = watched.known.get(key)
        except TypeError:  # a static argument has no hash: jax refuses it, too
            return
        is_first = counted is None
        if counted is None:
            if has_tracers(args, kwargs):
                self._count_outside(seconds)
                return
            self._describing.add(get_ident())
            try:
                counted = self._first(watched, key, args, kwargs)
            finally:
                self._describing.discard(get_ident())
            counted.seconds += seconds
        counted.calls += 1
        self._passed.clear()
        if is_first or monotonic() - self._written > _TICK:
            self.write_tallies()

    def _count_outside(self, seconds: float) -> None:
        """Count the line that runs an operation, once between two calls of jitted functions.

        So a line of a loop comes before one that makes a model, which runs hundreds of operations.
        """
        place = caller_of(sys._getframe()).partition(", through ")[0]  # what the program can change
        counted = self._outside.setdefault(place, Counted(place))
        counted.seconds += seconds
        if place not in self._passed:
            self._passed.add(place)
            counted.calls += 1
        if monotonic() - self._written > _TICK:
            self.write_tallies()

    def _report(self, err: Exception) -> None:
        if not self._has_reported:
            self._has_reported = True
            tell(f"a call was not recorded: {type(err).__name__}: {err}")

    # --- what is new ------------------------------------------------------------------------------

    def _of_function(self, function: Any, info: Any) -> Watched:
        key = id(function), id(info)
        watched = self._functions.get(key)
        if watched is None:
            made = Watched(function, info, lambda _: self._drop(key))
            watched = self._functions.setdefault(key, made)
        return watched

    def _drop(self, key: tuple[int, int]) -> None:
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
        observed = watched.observed(called)
        if len(watched.calls) < MOST_CALLS:
            call = describe_call(observed, args, kwargs, watched.info)
        else:
            call = ObservedCall(observed.key, (), problem=_TOO_MANY)
        with self._lock:
            if observed.key not in self._written_functions:
                self._written_functions.add(observed.key)
                self._writer.write([log_line("function", function=observed.to_json())])
            counted = watched.calls.get(call.key)
            if counted is None:
                counted = watched.calls[call.key] = Counted(call.key)
                self._writer.write([log_line("call", call=call.to_json())])
                if self._check:
                    verdict = self._check(observed.call, args, kwargs)
                    self._writer.write([log_line("verdict", of=call.key, verdict=verdict)])
            if len(watched.known) >= _MOST_KEYS:
                watched.known.clear()
            watched.known[key] = counted
        return counted

    def write_tallies(self) -> None:
        """Write what was counted since the last time."""
        with self._lock:
            self._written = monotonic()
            gone, self._gone = self._gone, []
            watched = [*self._functions.values(), *gone]
            found = [("tally", each) for w in watched for each in [*w.calls.values()]]
            found += [("outside", each) for each in [*self._outside.values()]]
            self._writer.write([line for kind, each in found if (line := each.take(kind))])


def _reference(value: Any, gone: Callable[[Any], None] | None = None) -> Callable[[], Any]:
    """Return a function that returns a value as long as the program has it."""
    try:
        return weakref.ref(value, gone)
    except TypeError:
        return lambda: value
