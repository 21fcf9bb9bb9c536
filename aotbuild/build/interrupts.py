"""SIGTERM and SIGHUP end a build as Ctrl-C does: everything is cleaned up."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

# Ctrl-C, and what cancels a CI job, stops a container or closes a terminal, each with the handler
# that Python starts with.
_ENDING: dict[signal.Signals, Any] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
}
# Seconds. `timeout` of coreutils and service managers signal a process and then its whole group:
# the second signal must not interrupt the cleanup that the first one started.
_SAME_REQUEST = 3.0
_first: float | None = None


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP arrived."""


def end_on_signals() -> Callable[[], None]:
    """Raise Terminated on SIGTERM and SIGHUP; return what restores the handlers.

    A repeated signal within three seconds is ignored, a later one kills the process. A handler that
    somebody else installed stays, and nothing changes outside of the main thread.
    """
    global _first
    if threading.current_thread() is threading.main_thread():
        _first = None
        for number, default in _ENDING.items():
            if signal.getsignal(number) == default:
                signal.signal(number, _end)
    return _restore


def _restore() -> None:
    if threading.current_thread() is threading.main_thread():
        for number, default in _ENDING.items():
            if signal.getsignal(number) == _end:
                signal.signal(number, default)


def _end(number: int, _: Any) -> None:
    global _first
    before, now = _first, monotonic()
    if before is not None and now - before < _SAME_REQUEST:
        return
    _first = before or now
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    if before is None:
        raise Terminated
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)
