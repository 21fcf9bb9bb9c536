"""Call logs made by hand, for tests of what is made of them."""

from __future__ import annotations

from typing import Any

from aotbuild.format.values import encode
from aotbuild.record.call_log import (
    CallLog,
    ObservedArgument,
    ObservedCall,
    ObservedFunction,
    Tally,
)


class Logged:
    """A call log that grows by calls of functions that take their arguments by position."""

    def __init__(self) -> None:
        self.log = CallLog()

    def call(
        self,
        function: str | ObservedFunction,
        times: int = 1,
        static: dict[str, Any] | None = None,
        options: dict[str, Any] | None = None,
        **specs: Any,
    ) -> Logged:
        """Add a call; `static` are the static arguments, `options` fields of the call."""
        statics = static or {}
        if isinstance(function, str):
            names = (*specs, *statics)
            function = ObservedFunction(function, positional=names, static=tuple(statics))
        arguments = tuple(ObservedArgument(name, spec) for name, spec in specs.items())
        values = tuple(sorted((name, encode(value)) for name, value in statics.items()))
        call = ObservedCall(function.key, arguments, values, **(options or {}))
        self.log.functions[function.key] = function
        self.log.calls[call.key] = call
        before = self.log.tallies.get(call.key, Tally())
        self.log.tallies[call.key] = before + Tally(times, 1.0)
        return self
