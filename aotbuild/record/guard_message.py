"""What a guard says of a call: where it is, why no executable ran, and what to do."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import sysconfig
from collections.abc import Hashable
from dataclasses import dataclass, replace
from types import FrameType
from typing import TypeAlias

import aotbuild.errors
from aotbuild.errors import CompilationForbidden, NoExecutable, listed
from aotbuild.record import private
from aotbuild.record.private import JitCall
from aotbuild.runtime.compatibility import CHANGE_CALL
from aotbuild.runtime.library import libraries
from aotbuild.runtime.log import log

# (the lines that say why, what to do)
Advice: TypeAlias = tuple[tuple[str, ...], str]

# The folder of this package, whose frames are no user's.
_OWN = os.path.join(os.path.dirname(aotbuild.errors.__file__), "")
_STANDARD = (os.path.join(sysconfig.get_path("stdlib"), ""), "<frozen")
_SITES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
# Methods of the runtime's Dispatch in which a kernel calls its source.
_CALLS_SOURCE = {"_fall_back", "_call_source"}

_ALLOW = "To permit it: `with aotbuild.guard.allow():`."
_OPERATION = (
    "JAX compiles a program of its own for what is called outside of jitted functions. Move it "
    "into a function of the manifest, or do it with numpy."
)
_TRANSFORMED = (
    "it was called inside a JAX transformation (jit, grad, vmap and the like), where its source "
    "is traced instead"
)
_OUTSIDE = (
    "Call it outside of the transformation, or add a function that has the transformation inside "
    "to the manifest."
)
_EDITABLE = "Install its wheel, or run `aotbuild build --in-place`."
_INSIDE = (
    "It is called inside an eager transformation (grad, vmap and the like), where no executable "
    "runs. Put the transformation into a jitted function, and add that one to the manifest."
)
_ADD = "Add it to the manifest, as `aotbuild record` does, and build again."


@dataclass(frozen=True)
class Begun:
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
        return self.function, self.call.line, tuple(self.avals)

    @property
    def avals(self) -> list[str]:
        """The avals of the leaves, each with its name."""
        pairs = zip(self.call.paths, self.call.avals, strict=True)
        return [f"{path}: {aval}" if path else aval for path, aval in pairs]

    def error(self) -> CompilationForbidden:
        """Return the error for it."""
        is_known = self.call.file and not self.call.file.startswith(private.JAX_FOLDER)
        source = f"{self.call.file}:{self.call.line}" if is_known else ""
        trace, remedy = self._advice()
        caller, remedy = caller_of(self.frame), f"{remedy} {_ALLOW}"
        return CompilationForbidden(
            self.kind, self.function, source, caller, self.avals, trace, remedy
        )

    def log(self) -> None:
        """Log it in one line."""
        trace, _ = self._advice()
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

    def _advice(self) -> Advice:
        """Return why the call runs no executable, and what to do."""
        if found := _of_kernel(self.frame):
            return found
        if self.function.startswith("jax:"):
            return (), _OPERATION
        if private.is_transforming():
            return (), _INSIDE
        return _of_libraries(self.function)


def look(kind: str, name: str, frame: FrameType) -> Begun:
    """Return what jax is about to do in a frame; `name` is what jax calls it."""
    call = private.find_call(frame, name)
    wrapped = private.wrapped_call(private.frames(frame))
    if wrapped and getattr(wrapped.wrapper, "__name__", None) == call.name:
        # The jits of flax and equinox give functions of their own to `jax.jit`.
        function = inspect.unwrap(wrapped.wrapper)
        code = function.__code__
        call = replace(call, function=function, file=code.co_filename, line=code.co_firstlineno)
    return Begun(kind, _name_of(call), call, frame)


def _name_of(call: JitCall) -> str:
    function = getattr(call.function, "func", call.function)  # functools.partial
    module = getattr(function, "__module__", None)
    if call.is_operation or call.file.startswith(private.JAX_FOLDER):
        return f"jax:{call.name}"
    if function is None or not module:
        files = ((n, getattr(m, "__file__", None)) for n, m in list(sys.modules.items()))
        module = next((name for name, file in files if file == call.file), None)
        return f"{module}:{call.name}" if module else call.name
    # An instance with `__call__` has the name of its type.
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{module}:{named.__qualname__}"


# --- why no executable ran ------------------------------------------------------------------------


def _of_kernel(frame: FrameType) -> Advice | None:
    """Return the reason if a kernel calls its source or compiles a portable form."""
    for each in private.frames(frame):
        dispatch = each.f_locals.get("self") if each.f_code.co_name in _CALLS_SOURCE else None
        if dispatch is None or type(dispatch).__name__ != "Dispatch":
            continue
        name = f"{dispatch.package.name}:{dispatch.function.name}"
        if note := dispatch.package.editable_note:
            return (note,), _EDITABLE
        error = each.f_locals.get("error")
        if isinstance(error, NoExecutable):
            reason = f"{name}: fallback {dispatch.package.fallback_policy}: {error.summary}"
            return (reason, *(f"  {line}" for line in error.trace)), CHANGE_CALL
        return (f"{name}: {_TRANSFORMED}",), _OUTSIDE
    return None


def _of_libraries(function: str) -> Advice:
    """Return which loaded package has a function whose source was called."""
    loaded = libraries()
    for library in loaded:
        for known in library._package.index.functions():
            if known.call == function:
                package = library._package.name
                name = f"{package}:{known.name}"
                call_it = f'Call `aotbuild.load("{package}").{known.name}`'
                decorate = f'decorate it with `@aotbuild.precompiled("{name}")`.'
                reason = f"{name} is in a loaded package, but its source was called"
                return (reason,), f"{call_it}, or {decorate}"
    names = ", ".join(library._package.name for library in loaded)
    return (f"no loaded package has it; loaded: {names or 'none'}",), _ADD


# --- the user's part of the stack -----------------------------------------------------------------


def caller_of(frame: FrameType) -> str:
    """Return the line of the user's code that led to a frame, and the library's before it.

    That is the first frame outside of jax and aotbuild, and of installed packages if there is one.
    """
    first = None
    for each in private.frames(frame):
        kind = _kind(each.f_code.co_filename)
        if kind == "own":
            through = f", through {_place(first)}" if first else ""
            return f"{_place(each)}{through}"
        first = first or (each if kind == "installed" else None)
    return _place(first) if first else ""


def _place(frame: FrameType) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"


@functools.cache
def _kind(file: str) -> str:
    """Return whose a source file is: `ours` (jax, aotbuild), `installed`, or the user's `own`."""
    if file.startswith((private.JAX_FOLDER, _OWN)):
        return "ours"
    is_installed = file.startswith(_STANDARD) or any(site in file for site in _SITES)
    return "installed" if is_installed else "own"
