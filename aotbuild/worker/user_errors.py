"""Errors of the user's code: as text, without the frames of jax and of this worker; their kinds."""

from __future__ import annotations

import linecache
import os
import re
import sys
import traceback
from typing import Any

import jax

# How much of an exception's own text is shown, in characters.
_LONGEST = 4000
_FRAMES = 5
# What jax says of meshes (0.10.2 and 0.12.0.1), and what to do.
_SET_MESH = "`set_mesh` can only be used outside"
_MESHES = (
    "should match the mesh passed to shard_map",
    "Received incompatible devices",
    "is incompatible with mesh_shape",
    "Number of devices ",
)
_SET_MESH_REMEDY = (
    "jax.jit refuses that, too: take set_mesh out of the function, and name the mesh in the "
    "manifest, as mesh: {axis: size}."
)
_MESH_REMEDY = (
    "There are as many devices as in the function's mesh in the manifest, and 1 without. Write the "
    "axes of the function's own mesh under mesh:, and those of type Explicit under explicit_axes: "
    "too."
)
# Errors of tracing, and what to do.
_REMEDIES: tuple[tuple[Any, str], ...] = (
    (
        jax.errors.TracerArrayConversionError,
        "numpy was given a traced array: use jax.numpy, or list the argument under static:.",
    ),
    (
        jax.errors.NonConcreteBooleanIndexError,
        "A mask decides the shape of the result: use jax.numpy.where with three arguments.",
    ),
    (
        (jax.errors.ConcretizationTypeError, jax.errors.TracerIntegerConversionError),
        "The value decides what is computed: list it under static:, or use lax.cond or lax.select.",
    ),
)

_SYMBOLS = (
    "Sizes are symbols in the portable form, here {}. If the code needs a number, leave the dim "
    "out of export: dims, so that each size gets a form. If it compares sizes, say what is true of "
    "them under export: constraints."
)


def user_traceback(error: BaseException) -> str:
    """Return where the user's own code raised, its lines of source, and what it raised."""
    where = "".join(frame_text(f.filename, f.lineno, f.name) for f in _user_frames(error))
    if isinstance(error, SyntaxError) and error.filename:
        where += frame_text(error.filename, error.lineno, "")
    return f"{where}{type(error).__name__}: {shorten(_text(error))}"


def remedy(error: BaseException, symbols: str = "") -> str:
    """Return what to change where a function raised while it was traced.

    `symbols` lists the dims that are symbolic, if there are any.
    """
    known = next((text for kind, text in _REMEDIES if isinstance(error, kind)), None)
    known = known or mesh_remedy(error)
    if symbols:
        # Code that needs a number fails in many ways, as does code that turns a size into an array.
        return "\n".join(filter(None, (known, _SYMBOLS.format(symbols))))
    return known or "Call it once with jax.eval_shape and these shapes to see the same error."


def mesh_remedy(error: BaseException) -> str | None:
    """Return what to change where a mesh does not fit; None for other errors."""
    if is_set_mesh(error):
        return _SET_MESH_REMEDY
    return _MESH_REMEDY if any(sign in _text(error) for sign in _MESHES) else None


def is_set_mesh(error: BaseException) -> bool:
    """Return whether code under a trace called `jax.set_mesh`."""
    return _SET_MESH in _text(error)


def shorten(text: str) -> str:
    """Return a text that fits an error message; one that is cut says how much is missing.

    Lone surrogates are written as escapes: no terminal and no file takes them.
    """
    text = text.strip().encode("utf-8", "backslashreplace").decode("utf-8")
    missing = len(text) - _LONGEST
    if missing <= 0:
        return text
    half = _LONGEST // 2
    return f"{text[:half]}\n… {missing} characters left out …\n{text[-half:]}"


def _user_frames(error: BaseException) -> list[traceback.FrameSummary]:
    """Return the innermost frames, and the innermost one that is in no installed package."""
    frames = traceback.extract_tb(error.__traceback__)
    shown = [frame for frame in frames if not is_hidden(frame.filename)]
    outer, inner = shown[:-_FRAMES], shown[-_FRAMES:]
    if all(map(_is_installed, inner)):
        inner = [frame for frame in outer if not _is_installed(frame)][-1:] + inner
    return inner


def _is_installed(frame: traceback.FrameSummary) -> bool:
    return f"-packages{os.sep}" in frame.filename


def is_hidden(filename: str) -> bool:
    """Return whether a file is of jax, of aotbuild or of the standard library."""
    if filename.startswith((*_package_folders(), "<frozen ", "<string>")):
        return True
    # Where there is no virtual environment, other packages are below the standard library.
    is_standard = filename.startswith(f"{os.path.dirname(os.__file__)}{os.sep}")
    return is_standard and "-packages" not in filename


def _package_folders() -> tuple[str, ...]:
    modules = (sys.modules.get(name) for name in ("jax", "jaxlib", "aotbuild"))
    folders = (os.path.dirname(m.__file__) for m in modules if m and m.__file__)
    return tuple(f"{folder}{os.sep}" for folder in folders)


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as err:  # noqa: BLE001 (the user's own __str__ may raise anything)
        return f"its text cannot be shown ({type(err).__name__} in __str__)"


_PLACE = re.compile(r"(.+):(\d+) in (.*)")


def place_text(line: str) -> str:
    """Return `file:line in function` as lines of a message, with its source; "" for ""."""
    found = _PLACE.fullmatch(line)
    return frame_text(found[1], int(found[2]), found[3]) if found else ""


def frame_text(filename: str, line: int | None, function: str) -> str:
    """Return `at file:line in function` and that line of source, if it can be read."""
    source = linecache.getline(filename, line or 0).strip()
    where = f"  at {filename}:{line}{f' in {function}' if function else ''}\n"
    return f"{where}    {source}\n" if source else where
