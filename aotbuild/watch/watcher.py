"""Watches all calls of jitted functions in this process, and writes what is new about them.

A call that was seen before costs one lookup: a signature is known by the treedef of its arguments
and by the identities of the avals and shardings of their leaves. The first call of a signature is
described, which may take milliseconds.
"""

from __future__ import annotations

import inspect
import os
import sys
import threading
import weakref
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from time import monotonic
from typing import Any

from aotbuild.spec.wrap import FILTER_JIT
from aotbuild.watch import private
from aotbuild.watch.calls import describe_call, has_tracers
from aotbuild.watch.functions import (
    describe_function,
    describe_operation,
    is_operation,
    static_places,
)
from aotbuild.watch.recording import (
    Program,
    RecordedCall,
    RecordedFunction,
    Tally,
    call_line,
    function_line,
    program_line,
    tally_line,
)
from aotbuild.watch.writer import Writer

# Signatures of a function that are told apart, and the keys that lead to them.
_MOST_CALLS = 10_000
_MOST_KEYS = 4 * _MOST_CALLS
# Seconds between two writes of tallies.
_TICK = 1.0
_TOO_MANY = (
    f"it was called with more than {_MOST_CALLS:,} signatures; the others are not told apart"
)


@dataclass
class Counted:
    """A signature and what was counted since its tally was written."""

    key: str
    calls: int = 0
    compiled: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    def take(self) -> Tally | None:
        """Return the tally and begin anew; None if nothing happened."""
        calls, compiled, seconds = self.calls, self.compiled, self.seconds
        if not calls and not compiled:
            return None
        # What another thread adds meanwhile is kept.
        self.calls -= calls
        self.compiled -= compiled
        self.seconds = {}
        stages = (seconds.get(name, 0.0) for name in ("trace", "lower", "compile"))
        return Tally(calls, compiled, *stages)


class _OfThread(threading.local):
    """Whether this thread is describing a call, and the seconds of stages that ended in it."""

    is_inside = False
    ended: dict[str, float] | None = None


class Watched:
    """One function under one jit."""

    def __init__(self, function: Any, info: Any) -> None:
        self.function, self.info = function, info
        self.wrap = private.wrap_of(function)
        self.is_operation = not self.wrap and is_operation(function)
        self.positions, self.names = static_places(info)
        # By the identity of what the program called, if it is not what `jax.jit` returned.
        self.recorded: dict[int, tuple[Any, RecordedFunction]] = {}
        self.known: dict[Any, Counted] = {}
        self.calls: dict[str, Counted] = {}
        self.kept: dict[int, Any] = {}  # what the identities in `known` are of
        self.with_shardings = private.device_count() > 1

    def key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what tells signatures apart; None if an argument has no such thing."""
        if self.is_operation:
            return ()
        statics: tuple[Any, ...] = ()
        if self.positions or self.names:
            statics = (
                *((i, type(args[i]), args[i]) for i in self.positions if i < len(args)),
                *((n, type(kwargs[n]), kwargs[n]) for n in sorted(self.names & kwargs.keys())),
            )
            args = tuple(None if i in self.positions else arg for i, arg in enumerate(args))
            kwargs = {n: each for n, each in kwargs.items() if n not in self.names}
        leaves, treedef = private.flatten((args, kwargs))
        keys = private.leaf_keys(leaves, self.kept, with_shardings=self.with_shardings)
        return treedef, tuple(keys), statics


class Watcher:
    """Watches this process. There is one at most."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._lock = threading.RLock()
        self._local = _OfThread()
        self._forget()

    def _forget(self) -> None:
        """Begin anew, in a new process."""
        self._functions: dict[tuple[int, int], Watched] = {}
        self._jitted: weakref.WeakKeyDictionary[Any, Watched] = weakref.WeakKeyDictionary()
        self._told: set[str] = set()
        self._process, self._written, self._has_begun = os.getpid(), monotonic(), False

    def start(self) -> None:
        """Watch from now on."""
        private.watch_calls(self._warm, self._cold)
        private.listen_to_ends(self._ended)
        self._is_on = True
        os.register_at_fork(after_in_child=self._after_fork)

    def stop(self) -> None:
        """Watch no more, and write what was counted."""
        self._is_on = False
        private.unwatch_calls()
        self.write_tallies()

    def _after_fork(self) -> None:
        self._lock = threading.RLock()
        self._local = _OfThread()
        self._forget()

    # --- calls, which must not raise --------------------------------------------------------------

    def _warm(self, jitted: Any, args: tuple[Any, ...], kwargs: dict[str, Any], _: Any) -> None:
        try:
            if self._is_on and not self._local.is_inside and not private.is_tracing():
                watched = self._jitted.get(jitted) or self._of_jitted(jitted)
                self._count(watched, args, kwargs)
        except Exception as err:  # noqa: BLE001 - watching must not break the program
            self._report(err)

    def _cold(
        self, function: Any, info: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        try:
            if self._is_on and not self._local.is_inside and not private.is_tracing():
                if has_tracers(args, kwargs):
                    return
                self._count(self._of_function(function, info), args, kwargs, self._take_ended())
        except Exception as err:  # noqa: BLE001 - as above
            self._report(err)

    def _count(
        self,
        watched: Watched,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        ended: dict[str, float] | None = None,
    ) -> None:
        key = watched.key(args, kwargs)
        try:
            counted = watched.known.get(key)
        except TypeError:  # a static argument has no hash: jax refuses it, too
            key = counted = None
        if counted is None:
            self._local.is_inside = True
            try:
                counted = self._first(watched, key, args, kwargs)
            finally:
                self._local.is_inside = False
        counted.calls += 1
        if ended:
            counted.compiled += 1
            for name, seconds in ended.items():
                counted.seconds[name] = counted.seconds.get(name, 0.0) + seconds
        if monotonic() - self._written > _TICK:
            self.write_tallies()

    def _report(self, err: Exception) -> None:
        if not getattr(self, "_has_reported", False):
            self._has_reported = True
            sys.stderr.write(f"aotbuild: a call was not recorded: {type(err).__name__}: {err}\n")

    # --- times ------------------------------------------------------------------------------------

    def _ended(self, event: str, seconds: float, **_: Any) -> None:
        stage = private.ENDS.get(event)
        if stage and self._is_on and not self._local.is_inside:
            ended = self._local.ended = self._local.ended or {}
            ended[stage] = ended.get(stage, 0.0) + seconds

    def _take_ended(self) -> dict[str, float] | None:
        ended, self._local.ended = self._local.ended, None
        return ended

    # --- what is new ------------------------------------------------------------------------------

    def _of_jitted(self, jitted: Any) -> Watched:
        function, info = private.inner_function(jitted)
        watched = self._of_function(function if function is not None else jitted, info)
        self._jitted[jitted] = watched
        return watched

    def _of_function(self, function: Any, info: Any) -> Watched:
        key = id(function), id(info)
        watched = self._functions.get(key)
        if watched is None:
            watched = Watched(function, info)
            with self._lock:
                watched = self._functions.setdefault(key, watched)
        return watched

    def _first(
        self, watched: Watched, key: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Counted:
        called = private.wrapped_call() if watched.wrap else None
        if called is not None:
            args, kwargs = called.args, called.kwargs
        recorded = self._recorded(watched, called)
        call = self._call(watched, recorded, args, kwargs)
        with self._lock:
            counted = watched.calls.get(call.key)
            if counted is None:
                counted = watched.calls[call.key] = Counted(call.key)
                self._write([call_line(call)])
            if len(watched.known) >= _MOST_KEYS:  # arrays whose avals are new each time
                watched.known.clear()
                watched.kept.clear()
            if key is not None:
                watched.known[key] = counted
        return counted

    def _recorded(self, watched: Watched, called: private.WrappedCall | None) -> RecordedFunction:
        """Return what is recorded of a function; equinox has one for wrappers of equal names."""
        wrapper: Any = called.wrapper if called else None
        if id(wrapper) not in watched.recorded:
            if watched.is_operation:
                recorded = describe_operation(watched.function)
            elif called is not None:
                # equinox gives its own function to jax.jit, with other arguments.
                info = None if called.wrap == FILTER_JIT else watched.info
                function = inspect.unwrap(wrapper)
                recorded = describe_function(function, info, called.wrap, wrapper)
            else:
                recorded = describe_function(watched.function, watched.info)
            with self._lock:
                watched.recorded[id(wrapper)] = wrapper, recorded
                if recorded.key not in self._told:
                    self._told.add(recorded.key)
                    self._write([function_line(recorded)])
        return watched.recorded[id(wrapper)][1]

    def _call(
        self,
        watched: Watched,
        recorded: RecordedFunction,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> RecordedCall:
        if watched.is_operation:
            return RecordedCall(recorded.key, ())
        if len(watched.calls) >= _MOST_CALLS:
            return RecordedCall(recorded.key, (), problem=_TOO_MANY)
        return describe_call(recorded, args, kwargs)

    # --- writing ----------------------------------------------------------------------------------

    def write_tallies(self) -> None:
        """Write what was counted since the last time."""
        with self._lock:
            self._written = monotonic()
            counted = [each for w in self._functions.values() for each in w.calls.values()]
            pairs = [(each.key, each.take()) for each in counted]
            self._write([tally_line(key, tally) for key, tally in pairs if tally])

    def _write(self, lines: list[bytes]) -> None:
        if not lines:
            return
        if not self._has_begun:
            self._has_begun = True
            lines = [program_line(_program()), *lines]
        self._writer.write(lines)


def _program() -> Program:
    now = datetime.now(UTC)
    versions = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in ("jax", "jaxlib", "aotbuild"):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = ""
    import jax

    key = f"{os.uname().nodename}:{os.getpid()}:{now.timestamp():.6f}"
    started = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    return Program(key, tuple(sys.argv), versions, jax.default_backend(), started)
