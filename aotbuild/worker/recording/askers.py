"""Who asks for something through the standard library, and what."""

from __future__ import annotations

import sys
from types import FrameType

from aotbuild.worker.recording.owners import kind_of

_TRANSPARENT = ("os", "collections.abc")
_METADATA = "importlib.metadata"
SAME = "samefile"
# Functions of the standard library that ask whether something exists, or is a link.
_EXISTENCE = frozenset(
    {
        *("exists", "lexists", "_exists", "_lexists", "isfile", "isdir", "ismount", SAME),
        *("is_file", "is_dir", "is_mount", "is_block_device", "is_char_device", "is_fifo"),
    }
)
_LINK = frozenset({"islink", "is_symlink"})
# Those that pass on everything that the system knows.
_STAT = frozenset({"stat", "lstat", "getsize"})


def asked_for(frame: FrameType | None) -> tuple[str, str, list[str]]:
    """Return who asks something of a file through the standard library, what, and by which.

    It is `looked`, `links` or `sizes`.
    """
    functions = ["stat"]
    while frame is not None and _is_of_stdlib(frame):
        functions.append(frame.f_code.co_name)
        frame = frame.f_back
    asker = str(frame.f_globals.get("__name__")) if frame else ""
    if not _EXISTENCE.isdisjoint(functions):
        return asker, "looked", functions
    if not _LINK.isdisjoint(functions):
        return asker, "links", functions
    return asker, "sizes" if functions[-1] in _STAT else "looked", functions


def is_asked_by_own(frame: FrameType | None) -> bool:
    """Return whether the user's code asks the standard library for something."""
    while frame is not None and _is_of_stdlib(frame):
        frame = frame.f_back
    names = frame.f_globals if frame else {}
    return kind_of(str(names.get("__name__")), names.get("__file__")) == "own"


def _is_of_stdlib(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] in sys.stdlib_module_names


def lists_distributions(frame: FrameType | None) -> bool:
    """Return whether the standard library looks for installed distributions."""
    while frame is not None:
        name = str(frame.f_globals.get("__name__"))
        if name.startswith(_METADATA):
            return True
        if not _is_of_stdlib(frame):
            return False
        frame = frame.f_back
    return False


def asker_of(frame: FrameType | None) -> str:
    """Return the module that asks for a variable, through what `os` offers for that or directly."""
    while frame is not None:
        name = str(frame.f_globals.get("__name__"))
        if name not in _TRANSPARENT or frame.f_code.co_name == "get_exec_path":
            return name
        frame = frame.f_back
    return ""
