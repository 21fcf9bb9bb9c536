"""The user's part of a stack: the line that led to jax, and the call as it was written there."""

from __future__ import annotations

import inspect
import os
import sysconfig
from dataclasses import replace
from types import FrameType
from typing import Any

import aotbuild.errors
from aotbuild.format.wrap import FILTER_JIT, NNX_JIT
from aotbuild.record import private
from aotbuild.record.private import JitCall

# The folder of this package, whose frames are no user's.
_OWN = os.path.join(os.path.dirname(aotbuild.errors.__file__), "")
_STANDARD = (os.path.join(sysconfig.get_path("stdlib"), ""), "<frozen")
_SITES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
# Libraries whose jit passes jax a function and arguments of its own, and how a manifest names it.
_WRAPS = {"flax": NNX_JIT, "equinox": FILTER_JIT}


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


def call_as_written(call: JitCall, frame: FrameType) -> tuple[JitCall, str]:
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
                static_positions=(),
                static_names=(),
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
