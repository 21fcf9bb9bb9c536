"""Whether Python may have taken old bytecode for a module.

Python compares the time of a source in seconds, and its size. Archives and checkouts can give an
edited file the time of the one before.
"""

from __future__ import annotations

import marshal
from importlib.machinery import ModuleSpec
from pathlib import Path

_HEADER = 16


def is_stale(spec: ModuleSpec) -> bool:
    """Return whether the bytecode that belongs to a module is not that of its source."""
    try:
        source, cached = Path(str(spec.origin)), Path(str(spec.cached))
        if not spec.cached or cached.stat().st_mtime_ns > source.stat().st_ctime_ns:
            return False  # it was written after the last change
        code = compile(source.read_bytes(), str(source), "exec", dont_inherit=True)
        old = marshal.loads(cached.read_bytes()[_HEADER:])  # noqa: S302 (Python has run it)
        return bool(old != code)
    except (OSError, ValueError, EOFError, TypeError, SyntaxError):
        return False
