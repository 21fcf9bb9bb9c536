"""What a guard says of a call: where it is, why no executable ran, and what to do."""

from __future__ import annotations

import inspect
import os
import reprlib
import sys
import sysconfig
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any, TypeAlias

import jax
import numpy as np

import aotbuild.errors
from aotbuild.errors import AotbuildError, CompilationForbidden, NoExecutable, listed
from aotbuild.format.wrap import FILTER_JIT, NNX_JIT
from aotbuild.record import private
from aotbuild.record.call_log import CallLog
from aotbuild.record.calls import describe_call
from aotbuild.record.check import explained
from aotbuild.record.entries import entries_for, seen_of
from aotbuild.record.entry_text import function_lines
from aotbuild.record.functions import describe_function
from aotbuild.record.private import JitCall
from aotbuild.runtime.library import libraries
from aotbuild.runtime.log import log
from aotbuild.runtime.mismatch import FALLBACK

# (the lines that say why, what to do)
Advice: TypeAlias = tuple[tuple[str, ...], str]

# The folder of this package, whose frames are no user's.
_OWN = os.path.join(os.path.dirname(aotbuild.errors.__file__), "")
_STANDARD = (os.path.join(sysconfig.get_path("stdlib"), ""), "<frozen")
_SITES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
# Libraries whose jit passes jax a function and arguments of its own, and how a manifest names it.
_WRAPS = {"flax": NNX_JIT, "equinox": FILTER_JIT}
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
_INSIDE = (
    "It is called inside an eager transformation (grad, vmap and the like), where no executable "
    "runs. Put the transformation into a jitted function, and add that one to the manifest."
)
_GENERAL = "Add the function to the manifest, and build again."


@dataclass(frozen=True)
class Begun:
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
        # Of any type of the user's: as text it may be long, and making it may raise.
        return leaves + [f"{k}={reprlib.repr(v)}" for k, v in self.call.statics.items()]

    def error(self) -> CompilationForbidden:
        """Return the error for it."""
        is_known = self.call.file and not self.call.file.startswith(private.JAX_FOLDER)
        source = f"{self.call.file}:{self.call.line}" if is_known else ""
        trace, remedy = self._advice()
        caller = caller_of(self.frame)
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
        is_operation = self.function.startswith("jax:")
        if found := _of_kernel(self.frame):
            lines, remedy = found
        elif not is_operation and private.is_transforming():
            lines, remedy = (), _INSIDE
        elif found := _of_libraries(self.function, self.call):
            lines, remedy = found
        elif is_operation:
            lines, remedy = (), _OPERATION
        else:
            names = ", ".join(library._package.name for library in libraries())
            lines = (f"no loaded package has it; loaded: {names or 'none'}",)
            remedy = _entry(self.call, self.wrap)
        return lines, f"{remedy}\n{_ALLOW}" if "\n" in remedy else f"{remedy} {_ALLOW}"


def look(kind: str, name: str, frame: FrameType) -> Begun:
    """Return what jax is about to do in a frame; `name` is what jax calls it."""
    call, wrap = _as_written(private.find_call(frame, name), frame)
    return Begun(kind, _name_of(call), call, wrap, frame)


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
        error = each.f_locals.get("error")
        if isinstance(error, NoExecutable):
            reason = f"{name}: fallback {dispatch.package.fallback_policy}: {error.summary}"
            return (reason, *_indented(error.trace)), _plain(error.remedy)
        return (f"{name}: {_TRANSFORMED}",), _OUTSIDE
    return None


def _of_libraries(function: str, call: JitCall) -> Advice | None:
    """Return what the loaded packages have of a function, and how the call differs from that."""
    try:
        args, kwargs = _with_arrays(call)
        found = explained(libraries(), function, args, kwargs)
    except Exception as err:  # noqa: BLE001 - the arguments are of any types of the user's
        return (f"how it differs from what is compiled: {type(err).__name__}: {err}",), _GENERAL
    if found is None:
        return None
    library, explanation = found
    package, error = library._package.name, explanation.error
    name = f"{package}:{explanation.function}"
    if error is None:
        reason = f"{name} is compiled for this call, but its source was called"
        call_it = f'Call `aotbuild.load("{package}").{explanation.function}`'
        return (reason,), f'{call_it}, or decorate it with `@aotbuild.precompiled("{name}")`.'
    if isinstance(error, NoExecutable):
        return (f"{name}: {error.summary}", *_indented(error.trace)), _plain(error.remedy)
    return (f"{name}:", *_indented(str(error).splitlines())), _GENERAL


def _plain(remedy: str) -> str:
    # The fallback that an error of a call names would be forbidden, too.
    return remedy.replace(FALLBACK, "").strip()


def _indented(lines: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"  {line}" for line in lines)


def _entry(call: JitCall, wrap: str) -> str:
    """Return the lines of a manifest that have a call compiled."""
    if call.function is None or call.args is None:
        return _GENERAL
    observed = describe_function(call.function, call.info, wrap)
    if observed.problem:
        return f"No manifest can name it: {observed.problem}."
    args, kwargs = _with_arrays(call)
    seen = seen_of(CallLog(), "", describe_call(observed, args, kwargs, call.info))
    (entry,) = entries_for(observed, [seen], most=1)
    name = observed.call.rpartition(":")[2].rpartition(".")[2]
    shown = "".join(f"\n  {line.removeprefix('  ')}" for line in function_lines(name, entry)[1:])
    return f"Add it to the functions of the manifest, and build again:{shown}"


def _with_arrays(call: JitCall) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call with arrays in place of tracers and shapes."""
    if call.args is None:
        msg = "its arguments are not known here"
        raise AotbuildError(msg)
    args = [
        value if position in call.static_positions else _filled(value)
        for position, value in enumerate(call.args)
    ]
    kwargs = {
        name: value if name in call.static_names else _filled(value)
        for name, value in (call.kwargs or {}).items()
    }
    return tuple(args), kwargs


def _filled(tree: Any) -> Any:
    """Return a tree with arrays in place of what stands for one."""
    if not any(map(private.is_placeholder, jax.tree_util.tree_leaves(tree))):
        return tree  # a type of the user's may not like to be copied
    return jax.tree_util.tree_map(_array, tree)


def _array(leaf: Any) -> Any:
    """Return an array for a leaf that stands for one: it takes no memory."""
    if not private.is_placeholder(leaf):
        return leaf
    if getattr(leaf, "weak_type", False) and not leaf.shape:
        return np.zeros((), leaf.dtype).item()
    return np.broadcast_to(np.zeros((), leaf.dtype), leaf.shape)


# --- the user's part of the stack -----------------------------------------------------------------


def caller_of(frame: FrameType) -> str:
    """Return the line of the user's code that led to a frame, and the library's before it.

    That is the first frame outside of jax and aotbuild, and of installed packages if there is one.
    """
    outside = [each for each in private.frames(frame) if not _is_ours(each)]
    own = next((each for each in outside if not _is_installed(each)), None)
    first = outside[0] if outside else None
    if own is None or own is first:
        return _place(own or first)
    return f"{_place(own)}, through {_place(first)}"


def _as_written(call: JitCall, frame: FrameType) -> tuple[JitCall, str]:
    """Return a call as the user wrote it, and the wrap of its function; empty for `jax.jit`."""
    for each in private.frames(frame):
        if _is_ours(each):
            continue
        wrapper = _wrapper(each)
        if getattr(wrapper, "__name__", None) == call.name:
            function = inspect.unwrap(wrapper)
            code = getattr(function, "__code__", None)
            found = replace(
                call,
                file=getattr(code, "co_filename", ""),
                line=getattr(code, "co_firstlineno", 0),
                function=function,
                args=each.f_locals["args"],
                kwargs=each.f_locals["kwargs"],
                info=None,
            )
            return found, _WRAPS[_top_module(wrapper)]
        if not _is_installed(each):
            break
    return call, ""


def _wrapper(frame: FrameType) -> Any:
    """Return the jitted function of a library that a frame calls, or None."""
    code, found = frame.f_code, frame.f_locals
    first = found.get(code.co_varnames[0]) if code.co_argcount else None
    if _top_module(first) in _WRAPS and hasattr(first, "__wrapped__"):
        return first if "args" in found and "kwargs" in found else None
    return None


def _top_module(value: object) -> str:
    return str(type(value).__module__).partition(".")[0]


def _place(frame: FrameType | None) -> str:
    if frame is None:
        return ""
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"


def _is_ours(frame: FrameType) -> bool:
    return private.is_jax(frame) or frame.f_code.co_filename.startswith(_OWN)


def _is_installed(frame: FrameType) -> bool:
    name = frame.f_code.co_filename
    return name.startswith(_STANDARD) or any(site in name for site in _SITES)
