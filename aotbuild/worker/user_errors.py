"""Errors of the user's code as text, without the frames of jax and of this worker."""

from __future__ import annotations

import os
import sys
import traceback

from aotbuild.build.sources import frame_text

# How much of an exception's own text is shown, in characters.
_LONGEST = 4000
_FRAMES = 5
# What jax says of meshes (0.10.2 and 0.12.0.1), and what to do.
_MESH_REMEDIES = (
    (
        "`set_mesh` can only be used outside",
        (
            "jax.jit refuses that, too: take set_mesh out of the function, and name the mesh in "
            "the manifest, as mesh: {axis: size}."
        ),
    ),
    (
        "should match the mesh passed to shard_map",
        (
            "The manifest's mesh surrounds the call, as jax.set_mesh does: write the axes of the "
            "function's own mesh under mesh:, and those of type Explicit under explicit_axes: too."
        ),
    ),
    (
        "Received incompatible devices",
        "Write a mesh: of as many devices as the function's own mesh has.",
    ),
    (
        "is incompatible with mesh_shape",
        "Write the axes of the function's own mesh under mesh:.",
    ),
    (
        "Number of devices ",
        (
            "There are as many devices as in the function's mesh in the manifest, and 1 without: "
            "write the function's own mesh there, as mesh: {axis: size}."
        ),
    ),
)


def user_traceback(error: BaseException) -> str:
    """Return where the user's own code raised, its lines of source, and what it raised."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not _is_hidden(f.filename)]
    where = "".join(frame_text(f.filename, f.lineno, f.name) for f in frames[-_FRAMES:])
    if isinstance(error, SyntaxError) and error.filename:
        where += frame_text(error.filename, error.lineno, "")
    return f"{where}{type(error).__name__}: {shorten(_text(error))}"


def mesh_remedy(error: BaseException) -> str | None:
    """Return what to change where jax says that a mesh does not fit; None for other errors."""
    text = _text(error)
    return next((remedy for sign, remedy in _MESH_REMEDIES if sign in text), None)


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


def _is_hidden(filename: str) -> bool:
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
    except Exception as err:  # noqa: BLE001 (the user's own __str__ may raise anything)
        return f"its text cannot be shown ({type(err).__name__} in __str__)"
