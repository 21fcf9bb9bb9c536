"""Objects by their names, `module:qualname`, as records and indexes have them."""

from __future__ import annotations

import sys
from typing import Any

from aotbuild.format.values import cut, import_module

# What every process has that calls executables.
ARRAYS = ("jax", "jaxlib", "numpy", "ml_dtypes")
_LONGEST = 100


def import_object(name: str) -> Any:
    """Return the object `module:qualname`, imported.

    Raises ValueError for malformed names, and whatever importing its module raises.
    """
    module, parts = _split(name)
    return _follow(import_module(module), parts)


def find_object(name: str) -> Any:
    """Return the object `module:qualname` of a module that is imported already, or None."""
    module, parts = _split(name)
    if module not in sys.modules:
        return None
    try:
        return _follow(sys.modules[module], parts)
    except AttributeError:
        return None


def _split(name: Any) -> tuple[str, list[str]]:
    module, _, qualname = name.partition(":") if isinstance(name, str) else ("", "", "")
    parts = qualname.split(".")
    if not all(part.isidentifier() for part in (*module.split("."), *parts)):
        msg = f"{cut(repr(name), _LONGEST)} is not the module:qualname of anything"
        raise ValueError(msg)
    return module, parts


def _follow(found: Any, parts: list[str]) -> Any:
    for part in parts:
        found = getattr(found, part)
    return found
