"""What is known of a watched function: its signatures, and what was counted of each."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aotbuild.record import private
from aotbuild.record.call_log import ObservedFunction, Tally
from aotbuild.record.functions import is_operation, static_places


@dataclass
class Counted:
    """A signature and what was counted since its tally was written."""

    key: str
    calls: int = 0
    seconds: float = 0.0

    def take(self) -> Tally | None:
        """Return the tally and begin anew; None if nothing happened."""
        calls, seconds = self.calls, self.seconds
        if not calls:
            return None
        # What another thread adds meanwhile is kept.
        self.calls -= calls
        self.seconds -= seconds
        return Tally(calls, seconds)


class Watched:
    """One function under one jit. It does not keep the function alive.

    Attributes:
        function: The function inside the jit.
        name: Its name, as jax tells of its stages.
        info: The options of the jit.
        wrap: The jit whose meaning its calls have; empty for that of jax.
        is_operation: Whether it is jax's own: its calls are counted, and no more.
        is_transformed: Whether its calls are those of eager transformations, which pass tracers.
        has_signatures: Whether its calls are told apart.
        has_statics: Whether it has static arguments. To jax, 1 and True are one value of them.
        calls: What was counted of each signature, by the key of its `ObservedCall`.
        known: The same, by what tells calls apart without describing them.
    """

    def __init__(
        self,
        function: Any,
        info: Any,
        gone: Callable[[Any], None],
        *,
        is_transformed: bool = False,
    ) -> None:
        """Watch a function; `gone` is called with a dead reference when the program drops it."""
        self.function = _reference(function, gone)
        self.name = private.name_of(function)
        self.info = info
        self.wrap = private.wrap_of(function)
        self.is_operation = not self.wrap and is_operation(function)
        self.is_transformed = is_transformed and not self.is_operation
        self.has_signatures = not (self.is_operation or self.is_transformed)
        self.positions, self.names = static_places(info)
        self.known: dict[Any, Counted] = {}
        self.calls: dict[str, Counted] = {}
        self.has_statics = bool(self.positions or self.names)
        self._with_shardings = private.device_count() > 1
        # By the identity of what the program called, if it is not what `jax.jit` returned.
        self._observed: dict[int, tuple[Callable[[], Any], ObservedFunction]] = {}

    def key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what tells signatures apart: what jax itself looks at, and the values of statics.

        An array is known by its aval, of which jax has one object only.
        """
        if not self.has_signatures:
            return ()
        statics: tuple[Any, ...] = ()
        if self.has_statics:
            statics = (
                *((i, type(args[i]), args[i]) for i in self.positions if i < len(args)),
                *((n, type(kwargs[n]), kwargs[n]) for n in sorted(self.names & kwargs.keys())),
            )
            args = tuple(None if i in self.positions else arg for i, arg in enumerate(args))
            kwargs = {n: each for n, each in kwargs.items() if n not in self.names}
        leaves, treedef = private.flatten((args, kwargs))
        keys = private.leaf_keys(leaves, with_shardings=self._with_shardings)
        return treedef, keys, statics, private.trace_context()

    def observed(self, wrapper: Any, make: Callable[[], ObservedFunction]) -> ObservedFunction:
        """Return what is written of it when it is called through `wrapper`; `make` describes it.

        equinox has one function for all wrappers of equal names.
        """
        found = self._observed.get(id(wrapper))
        # An object of an identity may be gone, and another one have it.
        if found is None or found[0]() is not wrapper:
            found = self._observed[id(wrapper)] = _reference(wrapper), make()
        return found[1]


def _reference(value: Any, gone: Callable[[Any], None] | None = None) -> Callable[[], Any]:
    """Return a function that returns a value as long as the program has it."""
    try:
        return weakref.ref(value, gone)
    except TypeError:
        return lambda: value
