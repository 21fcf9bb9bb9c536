"""Names of objects: which global of which module is an object. No code of the user's runs."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from functools import cached_property
from typing import Any

# Values that many names may lead to by chance, or that need none.
_COMMON = (type(None), bool, int, float, str, bytes, complex, types.ModuleType)
# The program's own module, and large ones whose functions and types name themselves.
_SKIPPED = {*sys.stdlib_module_names, "__main__", "jax", "jaxlib", "numpy", "scipy", "ml_dtypes"}


class GlobalNames:
    """The objects that are globals of imported modules when the first one is looked for.

    Those of the program itself have no name that leads to them in another process.
    """

    def name(self, value: Any) -> str | None:
        """Return `module:attr` of a global that is this object, or of an attribute of a global."""
        found, name = self._objects.get(id(value), (None, None))
        return name if found is value and not isinstance(value, _COMMON) else None

    @cached_property
    def _objects(self) -> dict[int, tuple[Any, str]]:
        """By id: the object, which stays alive here, and the best of its names."""
        found: dict[int, tuple[Any, str]] = {}
        for value, name in (*_globals(), *_attributes()):
            known = found.get(id(value))
            if known is None or _order(name) < _order(known[1]):
                found[id(value)] = value, name
        return found


def _order(name: str) -> tuple[int, str]:
    return name.count("."), name


def _globals() -> Iterator[tuple[Any, str]]:
    for module, names in _modules():
        for name, value in names.items():
            if name.isidentifier() and not isinstance(value, _COMMON):
                yield value, f"{module}:{name}"


def _modules() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, module in list(sys.modules.items()):
        names = getattr(module, "__dict__", None)
        is_own = getattr(module, "__name__", None) == name
        if isinstance(names, dict) and is_own and name.partition(".")[0] not in _SKIPPED:
            yield name, dict(names)


def _attributes() -> Iterator[tuple[Any, str]]:
    # A global is imported by many modules.
    owners = {id(owner): (owner, name) for owner, name in _globals() if not _is_function(owner)}
    for owner, name in owners.values():
        for attribute, value in _inside(owner).items():
            if str(attribute).isidentifier() and not isinstance(value, _COMMON):
                yield value, f"{name}.{attribute}"


def _is_function(value: Any) -> bool:
    return isinstance(value, types.FunctionType | types.BuiltinFunctionType)


def _inside(owner: Any) -> dict[Any, Any]:
    """Return the attributes that an object keeps; a namedtuple's are its items."""
    names = getattr(type(owner), "_fields", None) if isinstance(owner, tuple) else None
    if isinstance(names, tuple):
        return dict(zip(names, owner, strict=False))
    try:
        held = (type if isinstance(owner, type) else object).__getattribute__(owner, "__dict__")
    except (AttributeError, TypeError):
        return {}
    return dict(held) if isinstance(held, dict | types.MappingProxyType) else {}
