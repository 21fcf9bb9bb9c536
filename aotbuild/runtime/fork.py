"""Forked processes: calls are refused if XLA had started its threads before the fork.

XLA deserializes and runs in threads of its own, and `os.fork` copies none of them. On jaxlib 0.10.2
and 0.12.0.1 such a process hangs forever: at the next executable, at the next large operation of
one that is loaded, or at exit, where a client waits for its threads. So a child keeps the clients
of its parent for ever. jax only warns about all this (jax._src.xla_bridge._at_fork).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from aotbuild.errors import AotbuildError

if TYPE_CHECKING:
    from aotbuild.format.record import Record

_clients: set[Callable[[], Iterable[Any]]] = set()
_clear_in_child: WeakKeyDictionary[Any, Callable[[Any], None]] = WeakKeyDictionary()
_process: int | None = None
_parent: int | None = None


def watch(clients: Callable[[], Iterable[Any]]) -> None:
    """Make later forks record whether the parent had clients; `clients` must take no lock."""
    global _process
    if not _clients and hasattr(os, "register_at_fork"):  # not on Windows
        os.register_at_fork(after_in_child=_after_fork_in_child)
    _process = os.getpid()
    _clients.add(clients)


def clear_in_child(cache: Any, clear: Callable[[Any], None]) -> None:
    """Clear a dispatch cache in forked children, so that their calls miss and are refused."""
    _clear_in_child[cache] = clear


def refusal(what: Record | str) -> AotbuildError | None:
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
    """Raise `refusal(what)`, if there is one."""
    if error := refusal(what):
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
