"""What a guard says of something that it has seen: which call, what is compiled, what to do."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Hashable, Iterator
from types import FrameType

import aotbuild.errors
from aotbuild.errors import CompilationForbidden, listed
from aotbuild.frozen import dataclass
from aotbuild.runtime.observers import log
from aotbuild.watch import private
from aotbuild.watch.guard_advice import advise
from aotbuild.watch.private import JitCall

# The folder of this package, whose frames are no user's.
_OWN = os.path.join(os.path.dirname(aotbuild.errors.__file__), "")
_STANDARD = os.path.join(sysconfig.get_path("stdlib"), "")
_SITES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


@dataclass(frozen=True)
class Seen:
    """Something that jax was about to do.

    Attributes:
        kind: `tracing`, `lowering` or `compiling`.
        function: The function, as `module:qualname`.
        call: What is known of the call.
        frame: The frame of jax in which it was seen.
    """

    kind: str
    function: str
    call: JitCall
    frame: FrameType

    @property
    def key(self) -> Hashable:
        """The function and its signature: what is logged once."""
        return self.function, self.call.line, self.call.avals, repr(_statics(self.call))

    @property
    def avals(self) -> list[str]:
        """The avals of the leaves and the static values, each with its name."""
        pairs = zip(self.call.paths, self.call.avals, strict=True)
        leaves = [f"{path}: {aval}" if path else aval for path, aval in pairs]
        return leaves + [f"{name}={value!r}" for name, value in _statics(self.call).items()]

    def error(self) -> CompilationForbidden:
        """Return the error for it."""
        trace, remedy = advise(self.function, self.call, self.frame)
        source, caller = source_of(self.call), caller_of(self.frame)
        return CompilationForbidden(
            self.kind, self.function, source, caller, self.avals, trace, remedy
        )

    def log(self) -> None:
        """Log it in one line."""
        trace, _ = advise(self.function, self.call, self.frame)
        caller, avals = caller_of(self.frame), self.avals
        reasons = "; ".join(line.strip() for line in trace)
        log(
            "warning",
            "compilation",
            f"{self.function}: {self.kind}, called at {caller} with {listed(avals)}: {reasons}",
            stage=self.kind,
            function=self.function,
            signature=", ".join(avals),
            caller=caller,
            reasons=list(trace),
        )


def look(kind: str, name: str, frame: FrameType) -> Seen:
    """Return what jax is about to do in a frame; `name` is what jax calls it."""
    call = private.find_call(frame, name)
    return Seen(kind, _name_of(call), call, frame)


def _name_of(call: JitCall) -> str:
    function = getattr(call.function, "func", call.function)  # functools.partial
    module = getattr(function, "__module__", None)
    if call.is_operation or call.file.startswith(private.JAX_FOLDER):
        return f"jax:{call.name}"
    if function is None or not module:
        module = next((name for name, file in _module_files() if file == call.file), None)
        return f"{module}:{call.name}" if module else call.name
    return f"{module}:{getattr(function, '__qualname__', call.name)}"


def _module_files() -> Iterator[tuple[str, str | None]]:
    for name, module in list(sys.modules.items()):
        yield name, getattr(module, "__file__", None)


def _statics(call: JitCall) -> dict[str, object]:
    """Return the static arguments of a call, by name; those by position as `argument 2`."""
    found: dict[str, object] = {}
    names = private.parameter_names(call.function)
    for position, value in enumerate(call.args or ()):
        name = names[position] if position < len(names) else f"argument {position}"
        if position in call.static_positions or name in call.static_names:
            found[name] = value
    given = call.kwargs or {}
    return found | {name: given[name] for name in call.static_names if name in given}


def source_of(call: JitCall) -> str:
    """Return where the function is defined; empty if that is in jax, or unknown."""
    if not call.file or call.file.startswith(private.JAX_FOLDER):
        return ""
    return f"{call.file}:{call.line}"


def caller_of(frame: FrameType) -> str:
    """Return the line of the user's code that led to a frame, and the library's before it.

    That is the first frame outside of jax and aotbuild, and of installed packages if there is one.
    """
    outside = [each for each in private.frames(frame) if not _is_ours(each)]
    own = next((each for each in outside if not _is_installed(each)), None)
    first = outside[0] if outside else None
    if first is None:
        return ""
    if own is None or own is first:
        return _place(own or first)
    return f"{_place(own)}, through {_place(first)}"


def _place(frame: FrameType) -> str:
    code = frame.f_code
    return f"{code.co_filename}:{frame.f_lineno} in {code.co_name}"


def _is_ours(frame: FrameType) -> bool:
    return private.is_jax(frame) or frame.f_code.co_filename.startswith(_OWN)


def _is_installed(frame: FrameType) -> bool:
    name = frame.f_code.co_filename
    return name.startswith((_STANDARD, "<frozen")) or any(site in name for site in _SITES)
