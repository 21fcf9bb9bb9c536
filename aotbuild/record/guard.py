"""The guard: from here on nothing is traced, lowered or compiled without a word."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from types import TracebackType
from typing import Any, TypeVar

from aotbuild.errors import AotbuildError
from aotbuild.record import guard_listener, guard_state

F = TypeVar("F", bound=Callable[..., Any])

_MODES = ("raise", "log", "count")
_VARIABLE = "AOTBUILD_GUARD"
_BUILDING = "AOTBUILD_BUILDING"  # set in processes that compile on purpose


class Guard:
    """Forbid, log or count all tracing, lowering and compiling; `aotbuild.guard` is this class.

    It looks at whatever jax does in this process, not only at functions of a package. As a context
    manager or a decorator it holds for the code inside, and for the asyncio tasks that this code
    makes. A thread that is started inside is not inside, unless it runs in a copy of the context,
    as `asyncio.to_thread` does. `start` makes it hold for all threads until `stop`. The innermost
    one decides, and all of them are within what `start` began. Warm calls cost nothing.

    Args:
        mode: `"raise"` raises CompilationForbidden before anything is done; `"log"` logs a warning,
            once for each function and signature; `"count"` only counts, as the others do, too.

    Raises:
        AotbuildError: `mode` is none of these.

    Examples:
        >>> with aotbuild.guard("raise"):
        ...     logits = library.logits(params, tokens)
        >>> @aotbuild.guard("log")
        ... def handle(request): ...
        >>> aotbuild.guard("raise").start()
    """

    def __init__(self, mode: str) -> None:
        self._mode: guard_state.Mode = _checked(mode, "guard(mode)")

    @classmethod
    def allow(cls) -> Guard:
        """Return a guard that allows everything inside it.

        Examples:
            >>> with aotbuild.guard.allow():
            ...     warm_up()
        """
        made = cls.__new__(cls)
        made._mode = "allow"
        return made

    @staticmethod
    def counts() -> dict[str, dict[str, int]]:
        """Return how often guards have seen something since the process began.

        The keys are `tracing`, `lowering` and `compiling`, and below them the functions as
        `module:qualname`; jax's own operations are `jax:add` and the like.
        """
        return guard_state.counts()

    def start(self) -> Guard:
        """Make it hold for the whole process, and return it; a second call does nothing."""
        if guard_state.switch_on(self, self._mode):
            guard_listener.hold()
        return self

    def stop(self) -> None:
        """End what `start` began; a second call does nothing."""
        if guard_state.switch_off(self):
            guard_listener.release()

    def __repr__(self) -> str:
        return "aotbuild.guard.allow()" if self._mode == "allow" else f"guard({self._mode!r})"

    def __enter__(self) -> Guard:
        guard_listener.hold()
        guard_state.enter(self, self._mode)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        guard_state.leave(self)
        guard_listener.release()

    def __call__(self, function: F) -> F:
        """Return a function that runs inside this guard: sync, async, or a generator.

        AotbuildError for an asynchronous generator.
        """
        import functools

        return functools.wraps(function)(_inside(self, function))  # type: ignore[return-value]


def _inside(guard: Guard, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what runs a function inside a guard."""
    import inspect

    def call(*args: Any, **kwargs: Any) -> Any:
        with guard:
            return function(*args, **kwargs)

    async def call_async(*args: Any, **kwargs: Any) -> Any:
        with guard:
            return await function(*args, **kwargs)

    def generate(*args: Any, **kwargs: Any) -> Any:
        return (yield from _steps(guard, function(*args, **kwargs)))

    if inspect.isasyncgenfunction(function):
        msg = (
            f"guard: {function.__qualname__} is an asynchronous generator\n"
            "  expected a function, a coroutine function or a generator function\n"
            "Write `with aotbuild.guard(…):` around the steps inside it."
        )
        raise AotbuildError(msg)
    if inspect.iscoroutinefunction(function):
        return call_async
    if inspect.isgeneratorfunction(function):
        return generate
    return call


def _steps(guard: Guard, generator: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Run a generator, each step of it inside a guard, and its consumer outside."""
    step: Callable[[Any], Any] = generator.send
    given: Any = None
    while True:
        with guard:
            try:
                made = step(given)
            except StopIteration as end:
                return end.value
        try:
            step, given = generator.send, (yield made)
        except GeneratorExit:
            with guard:
                generator.close()
            raise
        except BaseException as err:  # noqa: BLE001 - whatever the consumer throws into it
            step, given = generator.throw, err


def start_from_environment() -> None:
    """Start the guard that AOTBUILD_GUARD asks for; AotbuildError for another value.

    A build compiles on purpose, so that its processes have none.
    """
    mode = os.environ.get(_VARIABLE)
    if mode and os.environ.get(_BUILDING) != "1":
        _checked(mode, f"the environment variable {_VARIABLE}")
        Guard(mode).start()


def _checked(mode: Any, place: str) -> Any:
    if mode not in _MODES:
        msg = f"{place}: expected one of {', '.join(_MODES)}, found {mode!r}; set one of these"
        raise AotbuildError(msg)
    return mode
