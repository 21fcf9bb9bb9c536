"""Observers: whoever is told what a library does. Subscribers, the log, and jax's own monitoring.

An event costs one truth test when nobody has subscribed:

    if listeners:
        from aotbuild.runtime.events import Loaded

        emit(Loaded(…))
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from aotbuild.errors import AotbuildError

if TYPE_CHECKING:
    from aotbuild.format.signature import Function
    from aotbuild.runtime.events import Event

Listener: TypeAlias = Callable[["Event"], object]
# Makes of a function and what calls it what is called in its place.
Watch: TypeAlias = Callable[["Function", Callable[..., Any]], Callable[..., Any]]

# Changed in place, so that a module may import them by name.
listeners: list[Listener] = []
watches: list[Watch] = []  # a recorder has one, which is told of the calls of all kernels
_failed: list[Listener] = []
_MOST_CHARACTERS = 1000


def subscribe(callback: Listener) -> Callable[[], None]:
    """Call `callback` with each event of each library in this process, until it is unsubscribed.

    It is called in the thread in which the event happens, after it has happened. It should return
    soon, as the call waits for it. What it raises is logged once and changes nothing.

    Args:
        callback: A function of one argument, an instance of a type in `aotbuild.events`.

    Raises:
        AotbuildError: `callback` cannot be called.

    Returns:
        A function that unsubscribes it. A second call of it does nothing.

    Examples:
        >>> unsubscribe = aotbuild.subscribe(print)
        >>> unsubscribe()
    """
    if not callable(callback):
        msg = f"subscribe(callback)\n  expected a function of one argument\n  found    {callback!r}"
        raise AotbuildError(msg)
    # An entry of its own: the same function may be subscribed twice.
    entry: Listener = lambda event: callback(event)  # noqa: E731
    listeners.append(entry)

    def unsubscribe() -> None:
        if entry in listeners:
            listeners.remove(entry)

    return unsubscribe


def emit(event: Event) -> None:
    """Give an event to all listeners. Never raises an Exception."""
    for listener in [*listeners]:
        try:
            listener(event)
        except Exception as err:  # noqa: BLE001 - a listener must not break the call
            _report(listener, event, err)


def _report(listener: Listener, event: Event, err: Exception) -> None:
    """Log the first failure of a listener."""
    if listener in _failed:
        return
    _failed.append(listener)
    what = f"a subscriber failed, later failures of it are not logged: on the event {event.kind}"
    log("warning", "subscriber_failed", what, err, package=event.package)


def monitor(name: str, seconds: float | None = None) -> None:
    """Record an event in `jax.monitoring`, with how long it took; nothing if jax is not imported.

    `name` is what follows `/aotbuild/`. What a listener of jax raises changes nothing.
    """
    monitoring: Any = sys.modules.get("jax.monitoring")
    if monitoring is None:
        return
    try:
        if seconds is None:
            monitoring.record_event(f"/aotbuild/{name}")
        else:
            monitoring.record_event_duration_secs(f"/aotbuild/{name}", seconds)
    except Exception as err:  # noqa: BLE001 - a listener must not break the call
        what = f"a listener of jax.monitoring failed on /aotbuild/{name}"
        log("debug", "subscriber_failed", what, err)


def is_logged(level: Literal["debug", "info", "warning"]) -> bool:
    """Return whether a record of this level goes anywhere, without importing `logging`."""
    # A process that has not imported it has no handler that would print a line.
    logging: Any = sys.modules.get("logging")
    number = getattr(logging, level.upper(), None)
    return number is not None and bool(logging.getLogger("aotbuild").isEnabledFor(number))


def log(
    level: Literal["debug", "info", "warning"],
    event: str,
    message: str,
    err: BaseException | None = None,
    **fields: Any,
) -> None:
    """Log one line, with `err` on it, as the logger `aotbuild`.

    The record has the attributes `aotbuild_event`, `aotbuild_<name>` for each field, and for an
    error `aotbuild_error` and `aotbuild_reasons`. They are listed in the reference of the runtime.
    """
    from logging import getLogger  # most processes log nothing

    if err is not None:
        lines = [" ".join(line.split()) for line in str(err).splitlines() if line.strip()]
        text = "; ".join(lines)
        short = text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"
        message = f"{message}: {type(err).__name__}: {short}"
        fields |= {"error": type(err).__name__, "reasons": lines}
    extra = {"event": event, **fields}
    extra = {f"aotbuild_{name}": value for name, value in extra.items()}
    getattr(getLogger("aotbuild"), level)("%s", message, extra=extra, stacklevel=2)
