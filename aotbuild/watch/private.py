"""Every private name of jax that watching uses; no other file of this room may import them.

Each was tried on jax 0.10.2 (Python 3.11) and 0.12.0.1 (Python 3.12) unless it says otherwise.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any

import jax
from jax._src import core, dispatch, monitoring, util

from aotbuild.frozen import dataclass
from aotbuild.spec.aval import Aval

# The folder of jax, as frames name it.
JAX_FOLDER = os.path.join(os.path.dirname(jax.__file__), "")

# --- what is about to happen ----------------------------------------------------------------------

# jax tells listeners of scalars of each of these when it begins, and of the outermost trace only.
BEGINS = {
    dispatch.JAXPR_TRACE_EVENT: "tracing",
    dispatch.JAXPR_TO_MLIR_MODULE_EVENT: "lowering",
    dispatch.BACKEND_COMPILE_EVENT: "compiling",
}
# Functions of jax under which a trace is part of another one, or of a lowering.
_OUTER = {
    *("trace_to_jaxpr", "trace_to_jaxpr_nocache", "trace_to_jaxpr_dynamic"),
    "lower_sharding_computation",
}


def listen_to_begins(listener: Callable[..., None]) -> None:
    """Register a listener of scalars; do nothing if it is registered.

    `jax.monitoring` has no public function that returns the listeners.
    """
    if listener not in monitoring.get_scalar_listeners():
        monitoring.register_scalar_listener(listener)


class _Silent(list[None]):
    """A listener that is false, so that `util.test_event` calls nothing.

    It reads the global twice: None in between, set by another thread, would be called.
    """

    def __call__(self, *_: object) -> None:
        """Do nothing: the listener was taken away while an event was told."""


_SILENT: Any = _Silent()
_heard: list[tuple[Any, Any]] = []  # (what is installed, what was installed before)


def listen_to_traces(listener: Callable[[FrameType], None]) -> None:
    """Call a listener before each trace of a jitted function inside an eager `grad` and the like.

    `listen_to_begins` is told of all others. jax calls `util.test_event_listener` when any trace
    begins.
    """
    if _heard:
        return
    before = util.test_event_listener

    def heard(name: str, *facts: object) -> None:
        if before:
            before(name, *facts)
        if name == "trace_to_jaxpr" and _is_outermost(frame := sys._getframe(2)):
            listener(frame)

    util.test_event_listener = heard
    _heard.append((heard, before))


def stop_listening_to_traces() -> None:
    """Put back what was installed before `listen_to_traces`."""
    while _heard:
        heard, before = _heard.pop()
        if util.test_event_listener is heard:
            util.test_event_listener = before or _SILENT


def _is_outermost(frame: FrameType) -> bool:
    """Return whether a frame traces a jitted function, in no other trace, that was not told of."""
    caller = frame.f_back
    if caller is None or caller.f_code.co_name != "_trace_for_jit":
        return False  # the body of a scan and the like; then its program is traced
    if core.trace_state_clean():
        return False  # jax tells listeners of scalars
    outside = frames(caller.f_back)
    return not any(each.f_code.co_name in _OUTER for each in outside if is_jax(each))


def forget_unfinished(frame: FrameType) -> None:
    """Take the calls that a frame is part of out of jax's caches, before an error ends them.

    `util.weakref_lru_cache` keeps an entry without a result for a call that raised. From then on it
    would not cache this call: jax would lower and compile it each time.
    """
    for each in frames(frame):
        code = each.f_code
        cached: Any = each.f_globals.get(code.co_name.removesuffix("_nocache"))
        if is_jax(each) and code.co_argcount and hasattr(cached, "evict_weakref"):
            cached.evict_weakref(each.f_locals.get(code.co_varnames[0]))


# --- the call that is traced, lowered or compiled -------------------------------------------------


@dataclass(frozen=True)
class JitCall:
    """What the frames of jax tell of a call.

    Attributes:
        name: The name of the function.
        file: The path of its source; empty if unknown.
        line: The line there; 0 if unknown.
        paths: The path of each leaf, as `params['w']`; empty texts where jax has none.
        avals: The avals of the leaves, as the manifest writes them.
        function: The function; None if unknown.
        args: The positional arguments; None if unknown.
        kwargs: The arguments by name.
        static_positions: The positions of static arguments.
        static_names: The names of static arguments.
        is_operation: Whether it is an operation of jax that was called outside of jit.
    """

    name: str
    file: str = ""
    line: int = 0
    paths: tuple[str, ...] = ()
    avals: tuple[str, ...] = ()
    function: Callable[..., Any] | None = None
    args: tuple[Any, ...] | None = None
    kwargs: Mapping[str, Any] | None = None
    static_positions: tuple[int, ...] = ()
    static_names: tuple[str, ...] = ()
    is_operation: bool = False


def find_call(frame: FrameType | None, name: str = "") -> JitCall:
    """Return the innermost call that jax works on; `name` is what its event says.

    Names and locals of jax's functions are read, so nothing here is needed for raising: what is not
    found is left out.
    """
    facts: dict[str, Any] = {}
    for each in frames(frame):
        read = _READERS.get(each.f_code.co_name) if is_jax(each) else None
        if read is None:
            continue
        found = {key: value for key, value in read(each.f_locals).items() if value is not None}
        if "function" in found and not _is_of(found["function"], facts.get("debug")):
            break
        facts = found | facts
        if "args" in facts:
            break
    return _call_of(facts, name.removeprefix("jit(").removesuffix(")") if name else "")


def is_jax(frame: FrameType) -> bool:
    """Return whether a frame is of jax's own code."""
    return frame.f_code.co_filename.startswith(JAX_FOLDER)


def aval_text(aval: Any) -> str:
    """Return an aval as the manifest writes it, or as jax prints what a manifest cannot have."""
    try:
        return str(Aval(tuple(aval.shape), str(aval.dtype), bool(aval.weak_type)))
    except (AttributeError, KeyError, TypeError):
        return str(aval)


def is_placeholder(leaf: Any) -> bool:
    """Return whether a leaf stands for an array: a tracer, or only a shape and dtype."""
    return isinstance(leaf, core.Tracer | jax.ShapeDtypeStruct)


def frames(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield a frame and those that called it, the innermost first."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_of(function: Any, debug: Any) -> bool:
    """Return whether a function has the name in the debug information of a program."""
    name = getattr(function, "__name__", None)
    return debug is None or name is None or name == debug.func_name


def _call_of(facts: Mapping[str, Any], name: str) -> JitCall:
    debug, info, function = facts.get("debug"), facts.get("info"), facts.get("function")
    avals: Sequence[Any] = facts.get("avals", ())
    names: Sequence[str | None] = getattr(debug, "arg_names", None) or ()
    paths = names if len(names) == len(avals) else [None] * len(avals)
    return JitCall(
        name=getattr(debug, "func_name", None) or name or "unknown",
        file=getattr(debug, "func_filename", None) or "",
        line=getattr(debug, "func_lineno", None) or 0,
        paths=tuple(path or "" for path in paths),
        avals=tuple(map(aval_text, avals)),
        function=function,
        args=facts.get("args"),
        kwargs=facts.get("kwargs"),
        static_positions=tuple(getattr(info, "static_argnums", ())),
        static_names=tuple(getattr(info, "static_argnames", ())),
        is_operation=bool(getattr(function, "_apply_primitive", False)),
    )


def _of_program(program: Any) -> dict[str, Any]:
    return {
        "debug": getattr(program, "debug_info", None),
        "avals": getattr(program, "in_avals", None),
    }


# What the locals of jax's functions tell, by the name of the function.
_READERS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    # pjit.py: a jitted function is traced.
    "_trace_for_jit": lambda found: {
        "function": found.get("fun"),
        "info": found.get("ji"),
        "debug": found.get("dbg"),
        **{key: found.get(key) for key in ("avals", "args", "kwargs")},
    },
    # pjit.py: a call that misses the C++ cache.
    "cache_miss": lambda found: {
        "function": found.get("fun"),
        "info": found.get("jit_info"),
        **{key: found.get(key) for key in ("args", "kwargs")},
    },
    # pjit.py: `jitted.trace(…)`, which `lower` and `eval_shape` call.
    "jit_trace": lambda found: _of_jitted(found),
    "jit_lower": lambda found: _of_jitted(found),
    # pjit.py: a program is lowered and compiled.
    "_pjit_call_impl_python": lambda found: _of_program(found.get("jaxpr")),
    "_pjit_lower": lambda found: _of_program(found.get("jaxpr")),
    # pxla.py: `lowered.compile()`.
    "from_hlo": lambda found: {"avals": found.get("global_in_avals")},
}


def _of_jitted(found: Mapping[str, Any]) -> dict[str, Any]:
    jitted = found.get("jit_func")
    return {
        "function": getattr(jitted, "_fun", None),
        "info": getattr(jitted, "_jit_info", None),
        **{key: found.get(key) for key in ("args", "kwargs")},
    }
