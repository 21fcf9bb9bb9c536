"""Threads, forks and imports: values made once, refusals after a fork, calls after an import.

XLA deserializes and runs in threads of its own, and `os.fork` copies none of them. On jaxlib 0.10.2
and 0.12.0.1 such a process hangs forever: at the next executable, at the next large operation of
one that is loaded, or at exit, where a client waits for its threads. So a child keeps the clients
of its parent for ever. jax only warns about all this (jax._src.xla_bridge._at_fork).
"""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from aotbuild.errors import AotbuildError

if TYPE_CHECKING:
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec

    from aotbuild.format.record import Record

V = TypeVar("V")

_MISSING: Any = object()


# --- threads ------------------------------------------------------------------------------------


class SingleFlight(Generic[V]):
    """A cache that makes each value once, with one reentrant lock per key.

    A failure is not cached: the next caller tries again.
    """

    def __init__(self) -> None:
        self._values: dict[Hashable, Any] = {}
        self._locks: dict[Hashable, threading.RLock] = {}

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        """Return the value of `key`; call `make` if there is none."""
        # One lookup each time: another thread may forget the entry between two.
        value: V = self._values.get(key, _MISSING)
        if value is _MISSING:
            with self._locks.setdefault(key, threading.RLock()):
                value = self._values.get(key, _MISSING)
                if value is _MISSING:
                    made = make()
                    # A re-entrant call may have filled the entry; keep that value.
                    value = self._values.setdefault(key, made)
        return value

    def __contains__(self, key: Hashable) -> bool:
        return key in self._values

    def forget(self, key: Hashable) -> None:
        """Drop the value of `key`, if there is one."""
        self._values.pop(key, None)

    def clear(self) -> None:
        """Drop every value."""
        self._values.clear()

    def values(self) -> list[V]:
        """Return every value that is made; takes no lock."""
        return list(self._values.values())


class Stats:
    """Thread-safe counters of one library since it was opened; times are in seconds."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._counts: Counter[str] = Counter()
        self._seconds = 0.0

    def count(self, name: str) -> None:
        """Add one to a counter."""
        with self._lock:
            self._counts[name] += 1

    def loaded(self, seconds: float) -> None:
        """Count one loaded executable, and the time that it took."""
        with self._lock:
            self._counts["loaded"] += 1
            self._seconds += seconds

    def to_dict(self) -> dict[str, Any]:
        """Return all counters and times as plain data."""
        with self._lock:
            counts, seconds = self._counts.copy(), self._seconds
        return {
            "loaded": counts["loaded"],
            "load_seconds": seconds,
            "misses": counts["misses"],
            "refused": counts["refused"],
            "fallbacks": {kind: counts[f"fallback.{kind}"] for kind in ("portable", "jit")},
            "portable_compiled": counts["portable_compiled"],
            "transformed": counts["transformed"],
            "padded": counts["padded"],
        }


# --- forks --------------------------------------------------------------------------------------

_clients: set[Callable[[], Iterable[Any]]] = set()
_clear_in_child: WeakKeyDictionary[Any, Callable[[Any], None]] = WeakKeyDictionary()
_process: int | None = None
_parent: int | None = None


def watch_forks(clients: Callable[[], Iterable[Any]]) -> None:
    """Make later forks record whether the parent had clients; `clients` must take no lock."""
    global _process
    if not _clients and hasattr(os, "register_at_fork"):  # not on Windows
        os.register_at_fork(after_in_child=_after_fork_in_child)
    _process = os.getpid()
    _clients.add(clients)


def clear_in_child(cache: Any, clear: Callable[[Any], None]) -> None:
    """Clear a dispatch cache in forked children, so that their calls miss and are refused."""
    _clear_in_child[cache] = clear


def fork_refusal(what: Record | str) -> AotbuildError | None:
    """Return why this process may not run this: it was forked after XLA's threads started."""
    if _parent is None:
        return None
    msg = (
        f"{what}: it cannot run in a process that was forked after XLA's threads were started\n"
        "  expected no use of devices before the fork\n"
        f"  found    process {os.getpid()}, forked from {_parent}, which had devices already\n"
        "Make the first call in the new process (with gunicorn in post_worker_init), or start it "
        "with spawn or forkserver."
    )
    return AotbuildError(msg)


def refuse_if_forked(what: Record | str) -> None:
    """Raise `fork_refusal(what)`, if there is one."""
    if error := fork_refusal(what):
        raise error


def _after_fork_in_child() -> None:
    global _parent, _process
    if _parent is None and (inherited := [client for each in _clients for client in each()]):
        import ctypes  # which numpy has imported where there is a client

        for client in inherited:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(client))
        # Not `getppid`: the parent of a daemon may have exited already.
        _parent = _process
        for cache, clear in list(_clear_in_child.items()):
            clear(cache)
    _process = os.getpid()


# --- imports ------------------------------------------------------------------------------------


class AfterImport:
    """Calls a function each time a module has been imported, while it is on.

    It is a finder of modules, and no MetaPathFinder: importing that class takes 5 ms.
    """

    def __init__(self, name: str, function: Callable[[], None]) -> None:
        self._name = name
        self._function = function

    def start(self) -> None:
        """Wait for the import; programs also look for a module without importing it."""
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def stop(self) -> None:
        """Wait for it no more."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec that the other finders have for the module, with our loader in it."""
        if name != self._name:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        specs = (finder.find_spec(name, path, target) for finder in others)
        spec = next(filter(None, specs), None)
        if spec is not None and spec.loader is not None:
            self._run_after(spec.loader)
        return spec

    def _run_after(self, loader: Loader) -> None:
        """Have a loader, which is that of one module, call the function when it is done."""
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            self._function()

        loader.exec_module = exec_module  # type: ignore[method-assign]
