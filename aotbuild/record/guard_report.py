"""What a guard says of something that it has seen."""

from __future__ import annotations

import reprlib
import sys
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from types import FrameType

from aotbuild.errors import CompilationForbidden, listed
from aotbuild.record import private
from aotbuild.record.guard_advice import advise
from aotbuild.record.guard_frames import call_as_written, caller_of
from aotbuild.record.guard_manifest import arguments
from aotbuild.record.private import JitCall
from aotbuild.runtime.log import log


@dataclass(frozen=True)
class Seen:
    """Something that jax was about to do.

    Attributes:
        kind: `tracing`, `lowering` or `compiling`.
        function: The function, as `module:qualname`.
        call: What is known of the call.
        wrap: The wrap of the function, as a manifest names it; empty for `jax.jit`.
        frame: The frame of jax in which it was seen.
    """

    kind: str
    function: str
    call: JitCall
    wrap: str
    frame: FrameType

    @property
    def key(self) -> Hashable:
        """The function and its signature: what is logged once."""
        return self.function, self.call.line, tuple(self.avals)

    @property
    def avals(self) -> list[str]:
        """The avals of the leaves and the static values, each with its name."""
        pairs = zip(self.call.paths, self.call.avals, strict=True)
        leaves = [f"{path}: {aval}" if path else aval for path, aval in pairs]
        _, statics = arguments(self.call)
        # Of any type of the user's: as text it may be long, and making it may raise.
        return leaves + [f"{name}={reprlib.repr(value)}" for name, value in statics.items()]

    def error(self) -> CompilationForbidden:
        """Return the error for it."""
        trace, remedy = advise(self.function, self.call, self.wrap, self.frame)
        source, caller = _source_of(self.call), caller_of(self.frame)
        return CompilationForbidden(
            self.kind, self.function, source, caller, self.avals, trace, remedy
        )

    def log(self) -> None:
        """Log it in one line."""
        trace, _ = advise(self.function, self.call, self.wrap, self.frame)
        caller, avals = caller_of(self.frame), self.avals
        reasons = "".join(f"; {line.strip()}" for line in trace)
        log(
            "warning",
            "compilation",
            f"{self.function}: {self.kind}, called at {caller} with {listed(avals)}{reasons}",
            stage=self.kind,
            function=self.function,
            signature=", ".join(avals),
            caller=caller,
            reasons=list(trace),
        )


def look(kind: str, name: str, frame: FrameType) -> Seen:
    """Return what jax is about to do in a frame; `name` is what jax calls it."""
    call, wrap = call_as_written(private.find_call(frame, name), frame)
    return Seen(kind, _name_of(call), call, wrap, frame)


def _name_of(call: JitCall) -> str:
    function = getattr(call.function, "func", call.function)  # functools.partial
    module = getattr(function, "__module__", None)
    if call.is_operation or call.file.startswith(private.JAX_FOLDER):
        return f"jax:{call.name}"
    if function is None or not module:
        module = next((name for name, file in _module_files() if file == call.file), None)
        return f"{module}:{call.name}" if module else call.name
    # An instance with `__call__` has the name of its type.
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{module}:{named.__qualname__}"


def _module_files() -> Iterator[tuple[str, str | None]]:
    for name, module in list(sys.modules.items()):
        yield name, getattr(module, "__file__", None)


def _source_of(call: JitCall) -> str:
    """Return where the function is defined; empty if that is in jax, or unknown."""
    if not call.file or call.file.startswith(private.JAX_FOLDER):
        return ""
    return f"{call.file}:{call.line}"
