"""Which guard holds for the running code, and what guards have seen.

Each context (`contextvars`) has a stack of guards, so that a guard holds for the code that runs
inside it and for tasks that this code starts. Below the stack are the switches of the process.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Hashable
from contextvars import ContextVar
from typing import Literal, TypeAlias

Mode: TypeAlias = Literal["raise", "log", "count", "allow"]

# (the guard, its mode); the innermost is the last.
_stack: ContextVar[tuple[tuple[object, Mode], ...]] = ContextVar("aotbuild_guard", default=())
_switches: tuple[tuple[object, Mode], ...] = ()  # replaced, never changed: it is read unlocked
_lock = threading.RLock()  # reentrant: a signal handler may interrupt `count`
_counts: dict[str, Counter[str]] = {}
_logged: set[Hashable] = set()


def mode() -> Mode | None:
    """Return the mode that holds here; None where all is allowed."""
    stack = _stack.get() or _switches
    return stack[-1][1] if stack and stack[-1][1] != "allow" else None


def enter(guard: object, mode: Mode) -> None:
    """Make a guard the innermost one of this context."""
    _stack.set((*_stack.get(), (guard, mode)))


def leave(guard: object) -> None:
    """Take the innermost entry of a guard off this context."""
    stack = list(_stack.get())
    for index in reversed(range(len(stack))):
        if stack[index][0] is guard:
            del stack[index]
            break
    _stack.set(tuple(stack))


def switch_on(guard: object, mode: Mode) -> bool:
    """Make a guard hold for the whole process; return whether it did not do so before."""
    global _switches
    with _lock:
        is_new = all(known is not guard for known, _ in _switches)
        if is_new:
            _switches = (*_switches, (guard, mode))
        return is_new


def switch_off(guard: object) -> bool:
    """End what `switch_on` began; return whether there was anything to end."""
    global _switches
    with _lock:
        before = _switches
        _switches = tuple(entry for entry in before if entry[0] is not guard)
        return len(_switches) < len(before)


def count(kind: str, function: str) -> None:
    """Count something that a guard has seen."""
    with _lock:
        _counts.setdefault(kind, Counter())[function] += 1


def counts() -> dict[str, dict[str, int]]:
    """Return what `count` was told, by kind and function."""
    with _lock:
        return {kind: dict(found) for kind, found in _counts.items()}


def is_first(key: Hashable) -> bool:
    """Return whether it is the first time that this is asked of a key."""
    with _lock:
        if key in _logged:
            return False
        _logged.add(key)
        return True
