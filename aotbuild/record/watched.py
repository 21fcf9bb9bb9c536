"""What is known of a watched function: its signatures, and what was counted of each."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aotbuild.format.signature import Function
from aotbuild.record import private
from aotbuild.record.functions import is_operation, static_places
from aotbuild.record.recording import RecordedFunction, Tally


@dataclass
class Counted:
    """A signature and what was counted since its tally was written."""

    key: str
    calls: int = 0
    compiled: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    def add(self, seconds: Mapping[str, float]) -> None:
        """Count a call, and the seconds of the stages that it took."""
        self.calls += 1
        if seconds:
            self.compiled += 1
            for stage, taken in seconds.items():
                self.seconds[stage] = self.seconds.get(stage, 0.0) + taken

    def take(self) -> Tally | None:
        """Return the tally and begin anew; None if nothing happened."""
        calls, compiled, seconds = self.calls, self.compiled, self.seconds
        if not calls and not compiled:
            return None
        # What another thread adds meanwhile is kept.
        self.calls -= calls
        self.compiled -= compiled
        self.seconds = {}
        stages = (seconds.get(name, 0.0) for name in ("trace", "lower", "compile"))
        return Tally(calls, compiled, *stages)


class Watched:
    """One function under one jit. It does not keep the function alive.

    Attributes:
        function: The function inside the jit.
        name: Its name, as jax tells of its stages; empty for a kernel.
        info: The options of the jit.
        wrap: The jit whose meaning its calls have; empty for that of jax.
        is_operation: Whether it is jax's own: its calls are counted, and no more.
        is_pmapped: Whether it is what `jax.pmap` makes.
        is_transformed: Whether its calls are those of eager transformations, which pass tracers.
        has_signatures: Whether its calls are told apart.
        has_statics: Whether it has static arguments. To jax, 1 and True are one value of them.
        calls: What was counted of each signature, by the key of its `RecordedCall`.
        known: The same, by what tells calls apart without describing them.
        only: What was counted of the only entry of the C++ dispatch, and after how many calls of
            the process that no such entry served: later ones may have replaced it.
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
        # The fallback of a kernel compiles under other names.
        self.name = "" if isinstance(function, Function) else private.name_of(function)
        self.info = info
        self.wrap = private.wrap_of(function)
        self.is_pmapped = private.pmapped_function(function) is not None
        self._is_wrapped_kernel = isinstance(function, Function) and bool(function.wrap)
        self.is_operation = not (self.wrap or self.is_pmapped) and is_operation(function)
        self.is_transformed = is_transformed and not (self.is_operation or self.is_pmapped)
        self.has_signatures = not (self.is_operation or self.is_pmapped or self.is_transformed)
        self.positions, self.names = static_places(info)
        self.known: dict[Any, Counted] = {}
        self.only: tuple[int, Counted] | None = None
        self.calls: dict[str, Counted] = {}
        self.has_statics = bool(self.positions or self.names)
        self._with_shardings = private.device_count() > 1
        # By the identity of what the program called, if it is not what `jax.jit` returned.
        self._recorded: dict[int, tuple[Callable[[], Any], RecordedFunction]] = {}

    def key(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        dispatched: tuple[Any, ...] | None = None,
    ) -> Any:
        """Return what tells signatures apart: what jax itself looks at, and the values of statics.

        An array is known by its aval, of which jax has one object only. The objects that a wrapped
        kernel takes have no key: what its C++ dispatch got of them has. None if that is unknown.
        """
        if not self.has_signatures:
            return ()
        if self._is_wrapped_kernel:
            if dispatched is None:
                return None
            args, kwargs = dispatched, {}
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

    def recorded(self, wrapper: Any, make: Callable[[], RecordedFunction]) -> RecordedFunction:
        """Return what is recorded of it when it is called through `wrapper`; `make` describes it.

        equinox has one function for all wrappers of equal names.
        """
        found = self._recorded.get(id(wrapper))
        # An object of an identity may be gone, and another one have it.
        if found is None or found[0]() is not wrapper:
            found = self._recorded[id(wrapper)] = _reference(wrapper), make()
        return found[1]


def _reference(value: Any, gone: Callable[[Any], None] | None = None) -> Callable[[], Any]:
    """Return a function that returns a value as long as the program has it."""
    try:
        return weakref.ref(value, gone)
    except TypeError:
        return lambda: value
