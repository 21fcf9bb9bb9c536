"""The guard's listeners: jax calls them before it traces, lowers or compiles.

They are installed while a guard holds somewhere, and when jax has been imported, which they never
do themselves.
"""

from __future__ import annotations

import sys
import threading
from types import FrameType
from typing import Any

from aotbuild.record import guard_state
from aotbuild.runtime.after_import import AfterImport

_lock = threading.Lock()
_holding: list[None] = []  # one item for each guard that holds
_installed: list[None] = []  # an item if the listeners are installed


def hold() -> None:
    """Install the listeners, or have them installed when jax has been imported."""
    with _lock:
        _holding.append(None)
        is_installed = bool(_installed)
        if "jax" not in sys.modules:
            _AFTER_JAX.start()
    # Another thread may hold a guard already, and not have installed them yet.
    if not is_installed:
        _match()


def release() -> None:
    """Take the listeners away if this was the last guard that holds."""
    with _lock:
        _holding.pop()
        is_last = not _holding
        if is_last:
            _AFTER_JAX.stop()
    if is_last:
        _match()


def _match() -> None:
    """Have the listeners installed if and only if a guard holds."""
    if "jax" not in sys.modules:
        return
    # Outside the lock: this may wait for another thread that imports jax, and then calls this.
    from aotbuild.record import private

    with _lock:
        _installed.clear()
        if _holding:
            # It stays registered, because removing it could make jax skip another listener.
            private.listen_to_begins(_on_begin)
            private.listen_to_traces(_on_trace)
            _installed.append(None)
        else:
            private.stop_listening_to_traces()


def _on_begin(event: str, _: float, **facts: Any) -> None:
    """Look at an event of `jax.monitoring` that something begins."""
    mode = guard_state.mode()
    if mode is None:
        return
    from aotbuild.record import private

    kind = private.BEGINS.get(event)
    if kind is not None:
        _on_seen(mode, kind, str(facts.get("fun_name", "")), sys._getframe(1))


def _on_trace(frame: FrameType) -> None:
    """Look at a trace that begins."""
    mode = guard_state.mode()
    if mode is not None:
        _on_seen(mode, "tracing", "", frame)


def _on_seen(mode: guard_state.Mode, kind: str, name: str, frame: FrameType) -> None:
    """Raise, log or count what begins at a frame of jax."""
    from aotbuild.record import guard_report, private

    inside = object()
    # To explain may import and call the user's code.
    guard_state.enter(inside, "allow")
    try:
        seen = guard_report.look(kind, name, frame)
        guard_state.count(kind, seen.function)
        if mode == "raise":
            error = seen.error()
            private.forget_unfinished(frame)
            raise error
        if mode == "log" and guard_state.is_first(seen.key):
            seen.log()
    finally:
        guard_state.leave(inside)


def _on_jax() -> None:
    with _lock:
        _AFTER_JAX.stop()
    _match()


_AFTER_JAX = AfterImport("jax", _on_jax)
