"""Events of calls that passed Python: what they say is found out where somebody listens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aotbuild.errors import AotbuildError, NoExecutable
from aotbuild.runtime.binding import bind
from aotbuild.runtime.events import Copied, Fallback, Padded, Refused, Transformed, describe
from aotbuild.runtime.observers import emit
from aotbuild.runtime.trees import flatten
from aotbuild.runtime.wrapped import with_markers

if TYPE_CHECKING:
    from aotbuild.runtime.backend import Backend
    from aotbuild.runtime.choice import Choice

Args = tuple[Any, ...]
Kwargs = dict[str, Any]


class CallEvents:
    """Emits what happens to the calls of one function."""

    def __init__(self, backend: Backend, choice: Choice) -> None:
        self._backend = backend
        self._choice = choice
        self._function = choice.function
        self._named = (choice.package.name, choice.function.name)

    def padded(self, sizes: str, args: Args, kwargs: Kwargs) -> None:
        """Emit that a call is padded; `sizes` is the text of its plan."""
        emit(Padded(*self._named, *self._found(args, kwargs), sizes))

    def copied(self, size: int, args: Args, kwargs: Kwargs) -> None:
        """Emit that a call copies arguments before it runs."""
        emit(Copied(*self._named, *self._found(args, kwargs), size))

    def transformed(self) -> None:
        """Emit that a call with tracers runs the source. Tracers have no signature."""
        emit(Transformed(*self._named, "", ""))

    def refused(self, error: NoExecutable, args: Args, kwargs: Kwargs) -> None:
        """Emit that no executable serves a call."""
        kind, reasons = type(error).__name__, (error.summary, *error.trace)
        emit(Refused(*self._named, *self._found(args, kwargs), kind, reasons))

    def fell_back(
        self, policy: str, seconds: float, error: NoExecutable, args: Args, kwargs: Kwargs
    ) -> None:
        """Emit that a fallback served a call."""
        reasons = (error.summary, *error.trace)
        emit(Fallback(*self._named, *self._found(args, kwargs), policy, seconds, reasons))

    def _found(self, args: Args, kwargs: Kwargs) -> tuple[str, str]:
        """Return the signature and the platform of a call; empty where it has none."""
        try:
            bound = bind(self._function, args, kwargs)
            if self._function.wrap:
                bound, _ = with_markers(bound, self._backend)
            call = flatten(bound, self._backend)
        except AotbuildError:
            return "", ""
        return describe(call.signature), self._choice.devices(call).platform
