"""Processes that were forked from one in which XLA was at work: their calls are refused.

XLA deserializes and runs in threads of its own, and os.fork copies none of them. On jaxlib 0.10.2
and 0.12.0.1 such a process waits forever: at the next executable, at the next large operation of
one that is loaded, or at its end. jax warns of it (jax._src.xla_bridge._at_fork) and goes on.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from aotbuild.errors import AotbuildError
from aotbuild.spec.record import Record

_watched: set[Callable[[], bool]] = set()
_clears: WeakKeyDictionary[Any, Callable[[Any], None]] = WeakKeyDictionary()
_process: int | None = None
_parent: int | None = None


def watch(has_client: Callable[[], bool]) -> None:
    """Have processes that are forked from now on know whether XLA was at work before."""
    global _process
    if not _watched and hasattr(os, "register_at_fork"):  # not on Windows
        os.register_at_fork(after_in_child=_in_child)
    _process = os.getpid()
    _watched.add(has_client)


def empty_there(cache: Any, clear: Callable[[Any], None]) -> None:
    """Have forked processes find a cache of calls empty, so that their calls miss."""
    _clears[cache] = clear


def refusal(record: Record) -> AotbuildError | None:
    """Return why nothing may run in a process that was forked from one in which XLA was at work."""
    if _parent is None:
        return None
    msg = (
        f"{record}: it cannot run in a process that was forked after XLA's threads were started\n"
        "  expected no use of devices before the fork\n"
        f"  found    process {os.getpid()}, forked from {_parent}, which had devices already\n"
        "Make the first call in the new process, or start it with spawn or forkserver."
    )
    return AotbuildError(msg)


def refuse_if_forked(record: Record) -> None:
    """Raise `refusal`, if there is one."""
    if error := refusal(record):
        raise error


def _in_child() -> None:
    global _parent, _process
    if _parent is None and any(has_client() for has_client in _watched):
        # Not `getppid`: where a daemon is made the parent may have ended already.
        _parent = _process
        for cache, clear in list(_clears.items()):
            clear(cache)
    _process = os.getpid()
