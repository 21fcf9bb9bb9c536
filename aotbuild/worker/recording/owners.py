"""Which modules a read belongs to: those whose code was at work when it happened.

Jobs share a process, and a module reads a file once, for all of them. So what was read belongs to
modules, and a job has read what its modules did, whichever job came first.

Modules are of three kinds. Those of an installation (site-packages) are taken as a whole: what one
of them reads belongs to every job of the process. The user's own, everywhere else, are told apart.
Those of the standard library, jax, numpy and the worker do what others ask for: what they read
belongs to their callers.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from types import FrameType
from typing import Any, Literal

Kind = Literal["own", "installed", "quiet"]

# The owner of what belongs to every job of this process.
EVERYBODY = ""
_QUIET = frozenset(
    {
        *("__main__", "aotbuild", "jax", "jaxlib", "ml_dtypes", "numpy", "scipy"),
        # What the worker itself uses.
        *("annotated_types", "flatbuffers", "packaging", "pydantic", "pydantic_core"),
        *("typing_extensions", "typing_inspection", "yaml"),
        *sys.stdlib_module_names,
    }
)
# Quiet modules that keep nothing of what they read for one caller. Others may have a cache, so what
# they read belongs to all who might ask later.
_FORGETTING = frozenset(
    {
        *("__main__", "aotbuild", "jax", "jaxlib", "ml_dtypes", "numpy", "scipy", "yaml"),
        *("_compression", "_pyio", "_strptime", "_sqlite3", "abc", "argparse", "array", "ast"),
        *("asyncio", "base64", "bz2", "codecs", "collections", "compression", "concurrent"),
        *("configparser", "contextlib", "contextvars", "copy", "copyreg", "csv", "ctypes"),
        *("dataclasses", "datetime", "decimal", "encodings", "enum", "fileinput", "fnmatch"),
        *("fractions", "functools", "genericpath", "getpass", "glob", "graphlib", "gzip"),
        *("hashlib", "heapq", "html", "importlib", "io", "ipaddress", "itertools", "json"),
        *("logging", "lzma", "marshal", "math", "mmap", "multiprocessing", "numbers", "operator"),
        *("os", "pathlib", "pickle", "pkgutil", "plistlib", "posixpath", "pprint", "queue"),
        *("random", "re", "reprlib", "runpy", "sched", "selectors", "shlex", "shutil", "socket"),
        *("sqlite3", "stat", "statistics", "string", "struct", "subprocess", "tarfile"),
        *("tempfile", "textwrap", "threading", "timeit", "tokenize", "tomllib", "types"),
        *("typing", "unittest", "uuid", "wave", "weakref", "xml", "zipapp", "zipfile"),
        # It keeps names in archives, but opens an archive for each file, and runpy asks it first.
        "zipimport",
    }
)
_OURS = "aotbuild"
_INSTALLED = ("/site-packages/", "/dist-packages/")
_STDLIB = tuple(
    {os.path.realpath(sysconfig.get_path(name)) + os.sep for name in ("stdlib", "platstdlib")}
)


def owners(frame: FrameType | None, *, caches: bool = True) -> tuple[str, ...]:
    """Return the modules that a read belongs to, which is done below this frame.

    EVERYBODY is among them if installed code is between the read and the user's: it may keep what
    it read for the next who asks. So may some modules of the standard library, with `caches`. So it
    is in a thread of which nobody knows who started it. None at all: it is the compiler's own
    affair.
    """
    found: dict[str, None] = {}
    has_own = may_keep = False
    for name, kind in _modules(frame):
        if kind == "own":
            if may_keep and not has_own:
                found[EVERYBODY] = None
            has_own = True
            found[name] = None
        elif kind == "quiet":
            may_keep |= caches and name.partition(".")[0] not in _FORGETTING
        elif not has_own:
            found[EVERYBODY] = None
    return tuple(found) or (() if _is_below_worker(frame) else (EVERYBODY,))


def importer_of(frame: FrameType | None) -> tuple[str, Kind] | None:
    """Return the module that wants an import, and its kind; None if it is the worker itself."""
    for found in _modules(frame):
        if found[1] != "quiet":
            return found
    return None if is_worker(frame) else (EVERYBODY, "installed")


def _modules(frame: FrameType | None) -> Iterator[tuple[str, Kind]]:
    """Yield the modules at work, the innermost first."""
    last = None
    while frame is not None:
        names = frame.f_globals
        name = names.get("__name__")
        if name is not last and isinstance(name, str):
            last = name
            yield name, _kind(name, names.get("__file__"))
        frame = frame.f_back


def is_worker(frame: FrameType | None) -> bool:
    """Return whether the worker itself asks, not jax."""
    while frame is not None:
        top = str(frame.f_globals.get("__name__")).partition(".")[0]
        if top not in sys.stdlib_module_names:
            return top == _OURS or top == "__main__"
        frame = frame.f_back
    return True


def _is_below_worker(frame: FrameType | None) -> bool:
    """Return whether the worker called this, directly or through others."""
    while frame is not None:
        if _is_us(str(frame.f_globals.get("__name__"))):
            return True
        frame = frame.f_back
    return False


def kind_of(name: str, file: Any) -> Kind:
    """Return the kind of a module by its name, and by its file if it has one."""
    return _kind(name, file if isinstance(file, str) else None)


@cache
def _kind(name: str, file: str | None) -> Kind:
    if name.partition(".")[0] in _QUIET and (file is None or is_installed(file) or _is_us(name)):
        return "quiet"
    return "own" if file is not None and not is_installed(file) else "installed"


def _is_us(name: str) -> bool:
    return name.partition(".")[0] in (_OURS, "__main__")


def looks_installed(path: str) -> bool:
    """Return whether a path is one of an installation, without following links."""
    return path.startswith(_STDLIB) or any(part in path for part in _INSTALLED)


@cache
def is_installed(file: str) -> bool:
    """Return whether a file is of an installation or of the standard library."""
    return looks_installed(file) or looks_installed(os.path.realpath(file))
