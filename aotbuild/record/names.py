"""Names by which another process imports what is in this one. No code of the user's runs."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

MAIN = "__main__"
# Values that many names may lead to by chance, or that need none.
_COMMON = (type(None), bool, int, float, str, bytes, complex, types.ModuleType)
# The program's own module, and large ones whose functions and types name themselves.
_SKIPPED = {*sys.stdlib_module_names, MAIN, "jax", "jaxlib", "numpy", "scipy", "ml_dtypes"}


@functools.cache
def main_name() -> str:
    """Return the name by which another process imports the program's module; empty if none does.

    A build imports `train.py` as `train`. A program given by `-c` has no such name.
    """
    main = sys.modules[MAIN]
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name:
        return "" if spec.name.endswith(f".{MAIN}") else str(spec.name)
    path = getattr(main, "__file__", None)
    if not path or not path.endswith(".py"):
        return ""
    stem = Path(path).stem
    # The folder of a script is where Python looks for modules first.
    return stem if stem.isidentifier() else ""


def importable(module: str) -> str:
    """Return the name by which another process imports a module; empty if none does."""
    return main_name() if module == MAIN else module


class GlobalNames:
    """The globals of imported modules, as they are when the first one is looked for.

    Those of the program itself are there if another process can import it.
    """

    def name(self, value: Any) -> str | None:
        """Return `module:attr` of a global that is this object."""
        found, name = self._objects.get(id(value), (None, None))
        return name if found is value else None

    def found(self) -> Iterator[tuple[Any, str]]:
        """Yield each object and its name."""
        yield from self._objects.values()

    @cached_property
    def _objects(self) -> dict[int, tuple[Any, str]]:
        """By id: the object, which stays alive here, and the best of its names."""
        found: dict[int, tuple[Any, str]] = {}
        for value, name in _globals():
            known = found.get(id(value))
            if known is None or _order(name) < _order(known[1]):
                found[id(value)] = value, name
        return found


def _order(name: str) -> tuple[bool, int, str]:
    """Return what sorts names: those of a module that others import, and short ones, first."""
    return name.startswith(f"{main_name()}:"), name.count("."), name


def _globals() -> Iterator[tuple[Any, str]]:
    for module, names in _modules():
        for name, value in names.items():
            if _may_be_named(name, value):
                yield value, f"{importable(module)}:{name}"


def _may_be_named(name: Any, value: Any) -> bool:
    # By its type: `isinstance` asks a proxy for the class of what it stands for.
    return type(name) is str and name.isidentifier() and not issubclass(type(value), _COMMON)


def _modules() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, module in list(sys.modules.items()):
        names = _dict_of(module)
        is_skipped = name.partition(".")[0] in _SKIPPED and not (name == MAIN and main_name())
        if names.get("__name__") == name and not is_skipped:
            yield name, names


def _dict_of(module: Any) -> dict[str, Any]:
    """Return a copy of a module's globals; a module that loads when it is used stays as it is."""
    try:
        held = object.__getattribute__(module, "__dict__")
    except AttributeError:
        return {}
    return dict(held) if type(held) is dict else {}
