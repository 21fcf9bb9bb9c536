"""The guard: from here on nothing is traced, lowered or compiled without a word.

jax calls listeners before it traces, lowers or compiles. Ours is installed by the first guard, or
when jax has been imported, which a guard never does itself. Each context
(`contextvars`) has a stack of guards, so that a guard holds for the code that runs inside it and
for tasks that this code starts. Below the stack are the guards of the whole process.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from collections.abc import Hashable
from contextvars import ContextVar
from types import FrameType, TracebackType
from typing import Any

from aotbuild.errors import AotbuildError
from aotbuild.runtime.concurrency import AfterImport

_MODES = ("raise", "log", "count")
_ALLOW = "allow"
_VARIABLE = "AOTBUILD_GUARD"
_BUILDING = "AOTBUILD_BUILDING"  # set in processes that compile on purpose

# (the guard, its mode); the innermost is the last.
_stack: ContextVar[tuple[tuple[object, str], ...]] = ContextVar("aotbuild_guard", default=())
_of_process: tuple[tuple[object, str], ...] = ()  # replaced, never changed: it is read unlocked
_lock = threading.RLock()  # reentrant: a signal handler may interrupt `_seen`
_counts: dict[str, Counter[str]] = {}
_logged: set[Hashable] = set()


class Guard:
    """Forbid, log or count all tracing, lowering and compiling; `aotbuild.guard` is this class.

    It looks at whatever jax does in this process, not only at functions of a package. As a context
    manager it holds for the code inside, and for the asyncio tasks that this code makes. A thread
    that is started inside is not inside, unless it runs in a copy of the context, as
    `asyncio.to_thread` does. `start` makes it hold for all threads until `stop`. The innermost one
    decides, and all of them are within what `start` began. Warm calls cost nothing.

    Args:
        mode: `"raise"` raises CompilationForbidden before anything is done; `"log"` logs a warning,
            once for each function and signature; `"count"` only counts, as the others do, too.

    Raises:
        AotbuildError: `mode` is none of these.

    Examples:
        >>> with aotbuild.guard("raise"):
        ...     logits = library.logits(params, tokens)
        >>> aotbuild.guard("raise").start()
    """

    def __init__(self, mode: str) -> None:
        self._mode = _checked(mode, "guard(mode)")

    @classmethod
    def allow(cls) -> Guard:
        """Return a guard that allows everything inside it.

        Examples:
            >>> with aotbuild.guard.allow():
            ...     warm_up()
        """
        made = cls.__new__(cls)
        made._mode = _ALLOW
        return made

    @staticmethod
    def counts() -> dict[str, dict[str, int]]:
        """Return how often guards have seen something since the process began.

        The keys are `tracing`, `lowering` and `compiling`, and below them the functions as
        `module:qualname`; jax's own operations are `jax:add` and the like.
        """
        with _lock:
            return {kind: dict(found) for kind, found in _counts.items()}

    def start(self) -> Guard:
        """Make it hold for the whole process, and return it; a second call does nothing."""
        global _of_process
        with _lock:
            if all(known is not self for known, _ in _of_process):
                _of_process = (*_of_process, (self, self._mode))
        _listen()
        return self

    def stop(self) -> None:
        """End what `start` began; a second call does nothing."""
        global _of_process
        with _lock:
            _of_process = tuple(entry for entry in _of_process if entry[0] is not self)

    def __repr__(self) -> str:
        return "aotbuild.guard.allow()" if self._mode == _ALLOW else f"guard({self._mode!r})"

    def __enter__(self) -> Guard:
        _listen()
        _stack.set((*_stack.get(), (self, self._mode)))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        stack = _stack.get()
        # This guard may not be the innermost: generators and tasks leave in another order.
        mine = [index for index, (guard, _) in enumerate(stack) if guard is self][-1:]
        _stack.set(tuple(entry for index, entry in enumerate(stack) if index not in mine))


def start_from_environment() -> None:
    """Start the guard that AOTBUILD_GUARD asks for; AotbuildError for another value.

    A build compiles on purpose, so that its processes have none.
    """
    mode = os.environ.get(_VARIABLE)
    if mode and os.environ.get(_BUILDING) != "1":
        Guard(_checked(mode, f"the environment variable {_VARIABLE}")).start()


def _checked(mode: str, place: str) -> str:
    if mode not in _MODES:
        msg = f"{place}: expected one of {', '.join(_MODES)}, found {mode!r}; set one of these"
        raise AotbuildError(msg)
    return mode


# --- listeners ------------------------------------------------------------------------------------


def _listen() -> None:
    """Have jax tell of what it begins, from now on or when it is imported.

    The listener stays, because removing it could make jax skip another one.
    """
    if "jax" not in sys.modules:
        _AFTER_JAX.start()
        return
    from aotbuild.record import private

    private.listen_to_begins(_on_begin)


def _on_jax() -> None:
    _AFTER_JAX.stop()
    _listen()


_AFTER_JAX = AfterImport("jax", _on_jax)


def _on_begin(event: str, _: float, **facts: Any) -> None:
    """Look at an event of `jax.monitoring` that something begins."""
    from aotbuild.record import private

    if (kind := private.BEGINS.get(event)) and _mode():
        _seen(kind, str(facts.get("fun_name", "")), sys._getframe(1))


def _mode() -> str:
    """Return the mode that holds here; empty where all is allowed."""
    stack = _stack.get() or _of_process
    return stack[-1][1] if stack and stack[-1][1] != _ALLOW else ""


def _seen(kind: str, name: str, frame: FrameType) -> None:
    """Raise, log or count what begins at a frame of jax."""
    from aotbuild.record import private
    from aotbuild.record.guard_message import look

    mode = _mode()
    with Guard.allow():  # to explain may import and call the user's code
        seen = look(kind, name, frame)
        with _lock:
            _counts.setdefault(kind, Counter())[seen.function] += 1
            is_first = seen.key not in _logged
            if mode == "log":
                _logged.add(seen.key)
        if mode == "raise":
            error = seen.error()
            private.forget_unfinished(frame)
            raise error
        if mode == "log" and is_first:
            seen.log()
