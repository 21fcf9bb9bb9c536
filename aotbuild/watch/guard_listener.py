"""The guard's listeners: jax calls them before it traces, lowers or compiles.

They are installed while a guard holds somewhere, and when jax has been imported, which they never
do themselves.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType
from typing import Any

from aotbuild.watch import guard_state

_lock = threading.Lock()
_holding: list[None] = []  # one item for each guard that holds
_installed: list[None] = []  # an item if the listeners are installed


def hold() -> None:
    """Install the listeners, or have them installed when jax has been imported."""
    with _lock:
        _holding.append(None)
        is_installed = bool(_installed)
        if "jax" not in sys.modules and _AFTER_JAX not in sys.meta_path:
            sys.meta_path.insert(0, _AFTER_JAX)
    # Another thread may hold a guard already, and not have installed them yet.
    if not is_installed:
        _match()


def release() -> None:
    """Take the listeners away if this was the last guard that holds."""
    with _lock:
        _holding.pop()
        is_last = not _holding
        if is_last and _AFTER_JAX in sys.meta_path:
            sys.meta_path.remove(_AFTER_JAX)
    if is_last:
        _match()


def _match() -> None:
    """Have the listeners installed if and only if a guard holds."""
    if "jax" not in sys.modules:
        return
    # Outside the lock: this may wait for another thread that imports jax, and then calls this.
    from aotbuild.watch import private

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
    from aotbuild.watch import private

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
    from aotbuild.watch import guard_report, private

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


class _AfterJax(MetaPathFinder):
    """Installs the listeners when jax has been imported."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec that the other finders have for jax, with our loader in it."""
        if name != "jax":
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        specs = (finder.find_spec(name, path, target) for finder in others)
        spec = next(filter(None, specs), None)
        if spec is not None and spec.loader is not None:
            _run_after(spec.loader)
        return spec


_AFTER_JAX = _AfterJax()


def _run_after(loader: Loader) -> None:
    """Have a loader, which is that of one module, install the listeners when it is done."""
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        with _lock:
            if _AFTER_JAX in sys.meta_path:
                sys.meta_path.remove(_AFTER_JAX)
        _match()

    loader.exec_module = exec_module  # type: ignore[method-assign]
