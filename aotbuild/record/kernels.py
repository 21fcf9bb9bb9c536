"""Calls of aotbuild's own kernels, with either backend: those of their source functions."""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from aotbuild.format.signature import Function
from aotbuild.format.values import import_object
from aotbuild.record import private
from aotbuild.record.functions import describe_function
from aotbuild.record.recording import RecordedFunction

Tell = Callable[[Function, "KernelOptions", "KernelCall"], None]


@dataclass(frozen=True)
class KernelOptions:
    """The static arguments of a kernel, as the options of a jit have them."""

    static_argnums: tuple[int, ...]
    static_argnames: tuple[str, ...]


@dataclass(frozen=True)
class KernelCall:
    """A call of a kernel that returned.

    Attributes:
        args: The positional arguments.
        kwargs: The arguments by name.
        dispatched: What the C++ dispatch of a wrapped kernel got, if it served the call.
        outputs: The results, which may be on more devices than the arguments.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    dispatched: tuple[Any, ...] | None
    outputs: Any


class _OfThread(threading.local):
    """How many calls of kernels this thread is in, and what the C++ dispatch of a wrap got."""

    depth = 0
    dispatched: tuple[Any, ...] | None = None


class KernelCalls:
    """Tells of each call of a kernel that returns."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._local = _OfThread()

    def watch(self, function: Function, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return what is called in the place of a kernel's call."""
        options, local, tell = _options_of(function), self._local, self._tell

        def watched(*args: Any, **kwargs: Any) -> Any:
            local.depth += 1
            try:
                outputs = call(*args, **kwargs)
            finally:
                local.depth -= 1
                dispatched, local.dispatched = local.dispatched, None
            seen = dispatched if function.wrap else None
            tell(function, options, KernelCall(args, kwargs, seen, outputs))
            return outputs

        return watched

    def is_inside(self, dispatched: tuple[Any, ...] | None = None) -> bool:
        """Return whether this thread is in a call of a kernel; note what its dispatch got."""
        if self._local.depth:
            self._local.dispatched = dispatched
        return bool(self._local.depth)


def describe_kernel(function: Function) -> RecordedFunction:
    """Return the source function of a kernel; what only the source knows if it is imported."""
    source, info = _source_of(function.call)
    known = RecordedFunction("") if source is None else describe_function(source, info)
    return replace(
        known,
        call=function.call,
        problem="",
        positional=known.positional or function.positional,
        keywords=known.keywords or tuple(function.keywords),
        static=tuple(static.name for static in function.statics),
        donate=tuple(function.donate),
        wrap=function.wrap,
    )


def _options_of(function: Function) -> KernelOptions:
    if function.wrap:  # its dispatch gets a key and arrays
        return KernelOptions((0,), ())
    names = tuple(static.name for static in function.statics)
    places = (i for i, name in enumerate(function.positional) if name in names)
    return KernelOptions(tuple(places), names)


def _source_of(call: str) -> tuple[Any, Any]:
    """Return a function that is imported already, and the options of its jit; else None."""
    try:
        found = import_object(call) if call.partition(":")[0] in sys.modules else None
    except (AttributeError, ImportError, ValueError):
        return None, None
    found = getattr(found, "__aotbuild_source__", found)
    if private.is_jitted(found):
        return private.inner_function(found)
    return (inspect.unwrap(found), None) if callable(found) else (None, None)
