"""What to do about something that a guard forbids: why no executable ran, and what to compile."""

from __future__ import annotations

from collections.abc import Sequence
from types import FrameType
from typing import Any, TypeAlias

import jax
import numpy as np

from aotbuild.errors import AotbuildError, NoExecutable
from aotbuild.record import private
from aotbuild.record.guard_manifest import manifest_lines
from aotbuild.record.private import JitCall
from aotbuild.runtime.library import Library, libraries
from aotbuild.runtime.mismatch import FALLBACK

# (the lines that say why, what to do)
Advice: TypeAlias = tuple[tuple[str, ...], str]

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
_UNNAMED = (
    "No manifest can name it: make it a function at the top level of a module that can be "
    "imported, and add that one."
)
_GENERAL = "Add the function to the manifest, and build again."


def advise(function: str, call: JitCall, wrap: str, frame: FrameType) -> Advice:
    """Return why a call runs no executable, and what to do; `function` is its `module:qualname`."""
    lines, remedy = (
        _of_kernel(frame)
        or _of_transformation(function)
        or _of_libraries(function, call)
        or _of_none(function, call, wrap)
    )
    return lines, f"{remedy}\n{_ALLOW}" if "\n" in remedy else f"{remedy} {_ALLOW}"


def _of_kernel(frame: FrameType) -> Advice | None:
    """Return the reason if a kernel calls its source or compiles a portable form."""
    for each in private.frames(frame):
        dispatch = each.f_locals.get("self") if each.f_code.co_name in _DISPATCH else None
        if dispatch is None or type(dispatch).__name__ != "Dispatch":
            continue
        name = f"{dispatch.package.name}:{dispatch.function.name}"
        error = each.f_locals.get("error")
        if isinstance(error, NoExecutable):
            reason = f"{name}: fallback {dispatch.package.fallback_policy}: {error.summary}"
            return (reason, *_indented(error.trace)), _plain(error.remedy)
        return (f"{name}: {_TRANSFORMED}",), _OUTSIDE
    return None


_DISPATCH = {"_fall_back", "_call_source"}


def _of_transformation(function: str) -> Advice | None:
    """Return what to do about a function that an eager transformation calls."""
    if function.startswith("jax:") or not private.is_transforming():
        return None
    return (), _INSIDE


def _of_libraries(function: str, call: JitCall) -> Advice | None:
    """Return what loaded packages have of a function, and how the call differs from that."""
    found = [
        (library, known)
        for library in libraries()
        for known in library._package.index.functions()
        if known.call == function and library._package.arrays == "jax"
    ]
    for library, known in found:
        return _compared(library, known.name, call)
    return None


def _compared(library: Library, name: str, call: JitCall) -> Advice:
    package = library._package.name
    reference = f"{package}:{name}"
    remedy = f'Call `aotbuild.load("{package}").{name}`, or decorate the function with '
    remedy += f'`@aotbuild.precompiled("{reference}")`.'
    try:
        args, kwargs = _with_arrays(call)
        explanation = library.explain(name, *args, **kwargs)
    except Exception as err:  # noqa: BLE001 - the arguments are of any types of the user's
        return (f"{reference} is compiled; how it differs: {type(err).__name__}: {err}",), remedy
    error = explanation.error
    if error is None:
        ran = f"{reference} is compiled for this call, but its source was called"
        return (ran,), remedy
    if isinstance(error, NoExecutable):
        lines = (f"{reference}: {error.summary}", *_indented(error.trace))
        return lines, _plain(error.remedy)
    return (f"{reference}:", *_indented(str(error).splitlines())), remedy


def _plain(remedy: str) -> str:
    # The fallback that an error of a call names would be forbidden, too.
    return remedy.replace(FALLBACK, "").strip()


def _indented(lines: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"  {line}" for line in lines)


def _with_arrays(call: JitCall) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call with arrays in place of tracers and shapes."""
    if call.args is None:
        msg = "its arguments are not known here"
        raise AotbuildError(msg)
    static = call.static_positions
    args = [
        value if position in static else _filled(value) for position, value in enumerate(call.args)
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


def _of_none(function: str, call: JitCall, wrap: str) -> Advice:
    """Return what to do about a function that no loaded package has."""
    if function.startswith("jax:"):
        return (), _OPERATION
    names = [library._package.name for library in libraries()]
    loaded = (f"no loaded package has it; loaded: {', '.join(names) or 'none'}",)
    if call.function is None:
        return loaded, _GENERAL
    lines = manifest_lines(function, call, wrap)
    if not lines:
        return loaded, _UNNAMED
    shown = "".join(f"\n  {line}" for line in lines)
    return loaded, f"Add it to the functions of the manifest, and build again:{shown}"
