"""Every private name of jax that watching uses; no other file of this room may import them.

Each was tried on jax 0.10.2 (Python 3.11) and 0.12.0.1 (Python 3.12) unless it says otherwise.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from types import FrameType
from typing import Any

import jax
import numpy as np
from jax._src import api, config, core, dispatch, monitoring, pjit, tree_util, xla_bridge
from jax._src.array import ArrayImpl
from jax._src.interpreters import partial_eval
from jaxlib import _jax

from aotbuild.format.aval import Aval
from aotbuild.format.wrap import FILTER_JIT, NNX_JIT

# The folder of jax, as frames name it.
JAX_FOLDER = os.path.join(os.path.dirname(jax.__file__), "")

# --- what is about to happen ----------------------------------------------------------------------

# jax tells listeners of scalars of each of these when it begins, and of the outermost trace only:
# of a jitted function inside an eager `grad` or `vmap`, when it is lowered.
BEGINS = {
    dispatch.JAXPR_TRACE_EVENT: "tracing",
    dispatch.JAXPR_TO_MLIR_MODULE_EVENT: "lowering",
    dispatch.BACKEND_COMPILE_EVENT: "compiling",
}


def listen_to_begins(listener: Callable[..., None]) -> None:
    """Register a listener of scalars; do nothing if it is registered.

    `jax.monitoring` has no public function that returns the listeners.
    """
    if listener not in monitoring.get_scalar_listeners():
        monitoring.register_scalar_listener(listener)


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
        is_operation: Whether it is an operation of jax that was called outside of jit.
    """

    name: str
    file: str = ""
    line: int = 0
    paths: tuple[str, ...] = ()
    avals: tuple[str, ...] = ()
    function: Callable[..., Any] | None = None
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
        if "function" in facts:
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
    debug, function = facts.get("debug"), facts.get("function")
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
        "debug": found.get("dbg"),
        "avals": found.get("avals"),
    },
    # pjit.py: a call that misses the C++ cache.
    "cache_miss": lambda found: {"function": found.get("fun")},
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
    return {"function": getattr(found.get("jit_func"), "_fun", None)}


# --- every call of a jitted function --------------------------------------------------------------

Hook = Callable[[Any, tuple[Any, ...], dict[str, Any], Any], None]
Missed = Callable[[Any, Any, tuple[Any, ...], dict[str, Any], float], None]
# (what was the post hook, what was `_run_python_pjit`, the hooks of debug_nans and debug_infs)
_watching: list[tuple[Any, Any, Any]] = []
_unset = config.config_ext.unset


def watch_calls(warm: Hook, cold: Missed) -> None:
    """Call `warm` after each call that the C++ dispatch serves, `cold` after each other one.

    `warm` gets the jitted function, the arguments and the results; `cold` the function inside, the
    options of its jit, the arguments and the seconds that it took. Neither may raise. A call of
    `cold` may be a part of a trace. The caches of the C++ dispatch stay as they are.
    """
    before, run = api._post_hook_state.get_global(), pjit._run_python_pjit

    def hook(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        warm(function, args, kwargs, output)
        # jax's own hook, which looks for NaN; it may have been set since.
        if _is_checking():
            api._nan_check_posthook(function, args, kwargs, output)
        elif before is not None and before is not api._nan_check_posthook:
            before(function, args, kwargs, output)

    def run_and_tell(*given: Any) -> Any:
        # `with jax.debug_nans(…)` leaves a hook of its thread: None. `import optax` has one.
        if api._post_hook_state.value is not hook:
            api._post_hook_state.set_local(_unset)
        start = perf_counter()
        results = run(*given)
        seconds = perf_counter() - start
        info = sys._getframe(1).f_locals.get("jit_info")
        function, args, kwargs = given[-3:]
        cold(function, info, args, kwargs, seconds)
        return results

    # jax would put its own hook, or none, in the place of ours.
    states = [
        (each, each._update_global_hook, each._update_thread_local_hook)
        for each in (config.debug_nans, config.debug_infs)
    ]
    for state, _, _ in states:
        state._add_hooks(lambda _: None, lambda _: None)
    api._post_hook_state.set_global(hook)
    api._post_hook_state.set_local(_unset)
    pjit._run_python_pjit = run_and_tell
    _watching.append((before, run, states))


def unwatch_calls() -> None:
    """Put back what was there before `watch_calls`."""
    while _watching:
        before, pjit._run_python_pjit, states = _watching.pop()
        for state, of_all, of_thread in states:
            state._add_hooks(of_all, of_thread)
        is_told = before not in (None, api._nan_check_posthook)
        if is_told and not _is_checking():
            api._post_hook_state.set_global(before)
        is_here = any(state.get_local() is True for state, _, _ in states)
        api._post_hook_state.set_local(api._nan_check_posthook if is_here else _unset)


def _is_checking() -> bool:
    """Return whether jax looks for NaN or infinity in all results."""
    return bool(config.debug_nans.value or config.debug_infs.value)


def is_tracing() -> bool:
    """Return whether this thread makes a jaxpr, of which what it calls becomes a part.

    It does not inside an eager `vmap`, `grad` and the like, where each call is compiled on its own.
    """
    if core.trace_state_clean():
        return False
    trace: Any = core.trace_ctx.trace
    while trace is not None and not isinstance(trace, partial_eval.DynamicJaxprTrace):
        trace = getattr(trace, "parent_trace", None)
    return trace is not None


def is_transforming() -> bool:
    """Return whether this thread is inside an eager `vmap`, `grad` or the like."""
    return not core.trace_state_clean() and not is_tracing()


def inner_function(function: Any) -> tuple[Any, Any]:
    """Return the function inside a jitted one, and the options of its jit.

    The dispatch of one of our kernels has no options: None.
    """
    names = function.__dict__
    return names.get("_fun"), names.get("_jit_info")


def device_count() -> int:
    """Return how many devices this process has; 1 as long as jax has not looked for them."""
    return int(jax.device_count()) if xla_bridge.backends_are_initialized() else 1


def platform() -> str:
    """Return the default platform; empty as long as jax has not looked for its devices."""
    return str(jax.default_backend()) if xla_bridge.backends_are_initialized() else ""


def is_jitted(value: Any) -> bool:
    """Return whether a value is what `jax.jit` returns."""
    return type(value) is _jax.PjitFunction


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """Return the leaves and the treedef of a tree."""
    found: tuple[list[Any], Any] = tree_util.default_registry.flatten(tree)
    return found


def leaf_keys(leaves: list[Any], *, with_shardings: bool) -> tuple[Any, ...]:
    """Return what decides the aval of each leaf, and with_shardings its sharding.

    Of an array that is its aval, of which jax has one object for all equal ones. Of anything else
    it is the shape and dtype, or the type.
    """
    keys = [leaf.aval if type(leaf) is ArrayImpl else _leaf_key(leaf) for leaf in leaves]
    if with_shardings:
        keys += [leaf._sharding for leaf in leaves if type(leaf) is ArrayImpl]
    return tuple(keys)


def _leaf_key(leaf: Any) -> Any:
    if isinstance(leaf, np.ndarray):
        return leaf.shape, leaf.dtype
    aval = getattr(leaf, "aval", None)
    if aval is not None:  # a PRNG key, or a tracer
        return type(leaf), aval
    return type(leaf), getattr(leaf, "shape", None), getattr(leaf, "dtype", None)


def trace_context() -> Any:
    """Return the settings of jax that decide a trace, as its own caches tell them apart."""
    return config.config_ext.trace_context()


def shardings_of_jit(info: Any) -> list[Any]:
    """Return the shardings that a jit was told of arguments and results."""
    names = ("in_shardings_leaves", "out_shardings_leaves")
    told = [each for name in names for each in getattr(info, name, ())]
    return [each for each in told if isinstance(each, jax.sharding.Sharding)]


# --- the jits of flax and equinox, which call `jax.jit` inside ------------------------------------

# The function that the program called, by file and name, and the local that is the wrapper.
# Tried with flax 0.12.8 and 0.12.12, and equinox 0.13.8.
_NNX_FILE = os.path.join("flax", "nnx", "transforms", "compilation.py")
_EQUINOX_FILE = os.path.join("equinox", "_jit.py")
_WRAPPERS = {
    (_NNX_FILE, "__call__"): (NNX_JIT, "self"),
    (_EQUINOX_FILE, "_call"): (FILTER_JIT, "jit_wrapper"),
}
_INNER = {
    f"flax.nnx.transforms.compilation:{kind}": NNX_JIT
    for kind in ("JitFn", "SimpleJitFn", "SimpleJitPartialFn")
}


@dataclass(frozen=True)
class WrappedCall:
    """A call of what `nnx.jit` or `eqx.filter_jit` returned: the wrapper, and what it was given."""

    wrap: str
    wrapper: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def wrap_of(function: Any) -> str:
    """Return the jit that makes such functions for `jax.jit`; empty if none does."""
    kind = type(function)
    found = _INNER.get(f"{kind.__module__}:{kind.__qualname__}", "")
    if not found and getattr(function, "__module__", None) == "equinox._jit":
        return FILTER_JIT
    return found


def wrapped_call(within: Iterable[FrameType]) -> WrappedCall | None:
    """Return the innermost call of a wrapper in some frames; None if there is none."""
    for frame in within:
        code = frame.f_code
        for (file, name), (wrap, local) in _WRAPPERS.items():
            if code.co_name == name and code.co_filename.endswith(file):
                found = frame.f_locals
                return WrappedCall(wrap, found[local], tuple(found["args"]), dict(found["kwargs"]))
    return None
