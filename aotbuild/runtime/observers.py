"""Observers: who is told what a library does, and what it costs when nobody is: one truth test.

Where something happens:

    if listeners:
        from aotbuild.runtime import events

        emit(events.Loaded(…))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from aotbuild.runtime.events import Event

Listener: TypeAlias = Callable[["Event"], object]

# Changed in place, so that a module may import it by name.
listeners: list[Listener] = []
_failed: list[Listener] = []


def subscribe(callback: Listener) -> Callable[[], None]:
    """Call `callback` with each event of each library in this process, until it is unsubscribed.

    It is called in the thread in which the event happens, after it has happened. It should return
    soon, as the call waits for it. What it raises is logged once and changes nothing.

    Args:
        callback: A function of one argument, an instance of a type in `aotbuild.events`.

    Returns:
        A function that unsubscribes it. A second call of it does nothing.

    Examples:
        >>> unsubscribe = aotbuild.subscribe(print)
        >>> unsubscribe()
    """
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
    from logging import getLogger

    message = "a subscriber failed on the event %s: %s: %s; later failures of it are not logged"
    getLogger("aotbuild").warning(message, event.kind, type(err).__name__, err)
