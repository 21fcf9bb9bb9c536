"""What the records of a package may import: names of types, templates, callbacks and sources.

An index is data, and whoever changes it may write any name. So only modules count that the package
has anyway: its own, those of the distributions that it requires, those of jax and numpy, and a few
of the standard library. What is imported already is no exception: a name that leads to `os.system`
is refused whether or not anybody imported os.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from typing import Any, Protocol

from aotbuild.errors import ImportRefused
from aotbuild.format.values import cut, import_module

# What every process has that calls executables.
ARRAYS = ("jax", "jaxlib", "numpy", "ml_dtypes")
# Of these, what runs texts, compilers and libraries, and what no result or callback needs.
_TOOLS = ("numpy.testing", "numpy.f2py", "numpy.distutils", "numpy.ctypeslib")
# Modules of the standard library whose types may be nodes, if somebody registers them.
_TYPES = frozenset(
    (
        *("argparse", "builtins", "collections", "dataclasses", "datetime", "decimal", "enum"),
        *("fractions", "functools", "types", "typing"),
    )
)
# Its functions that host callbacks may be, and static data may hold: they change nothing.
_FUNCTIONS = {
    "builtins": frozenset(
        (
            *("abs", "all", "any", "divmod", "hash", "len", "max", "min", "pow", "print", "repr"),
            *("round", "sorted", "sum"),
        )
    ),
    "logging": frozenset(("debug", "info", "warning", "error", "critical")),
    "time": frozenset(("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter")),
    "math": None,
    "cmath": None,
}
# The one name with underscores that a source may have, as `Model.__call__`. Others lead from a
# function to the globals of its module, or to what imports modules.
_CALL = "__call__"
_LONGEST = 100
_CODE = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, type)


class Dependencies(Protocol):
    """The distributions that a package belongs to and requires; see `format.dependencies`."""

    @property
    def names(self) -> Sequence[str]: ...

    def provide(self, module: str) -> bool:
        """Return whether one of them has a module."""
        ...


class Imports:
    """What one package may import. `package` is its dotted name; `is_known` says who named it.

    A name that the caller asked for is the package's. One that only the index states is not
    believed where it is that of a module of the standard library. `more` are modules that the
    caller allows, with all below them. `dependencies` are looked up at the first need.
    """

    def __init__(
        self,
        package: str,
        more: Callable[[], Iterable[str]] = tuple,
        dependencies: Callable[[], Dependencies | None] = lambda: None,
        *,
        is_known: bool = True,
    ) -> None:
        self.package, self._more = package, more
        self._is_known = is_known or top_of(package) not in sys.stdlib_module_names
        self._find_dependencies = dependencies
        self._dependencies: Dependencies | None = None
        self._provided: dict[str, bool] = {}

    def imported(self, name: str) -> Any:
        """Return the object `module:qualname`, imported.

        ImportRefused unless the package may name it; else whatever importing it raises.
        """
        module, parts = _split(name)
        self._check(name, module)
        return self._follow(name, import_module(module), parts)

    def found(self, name: str) -> Any:
        """Return the object `module:qualname` of a module that is imported already, or None."""
        module, parts = _split(name)
        self._check(name, module)
        if module not in sys.modules:
            return None
        try:
            return self._follow(name, sys.modules[module], parts)
        except AttributeError:
            return None

    def allows(self, module: str) -> bool:
        """Return whether the package may name something of a module."""
        top = top_of(module)
        if _is_below(module, self._more()):
            return True
        if module.rpartition(".")[2] == "__main__":  # importing it runs a program
            return False
        if self._is_known and (_is_below(module, [self.package]) or self._is_own(top)):
            return True
        if top in ARRAYS:
            return not _is_below(module, _TOOLS)
        if top in sys.stdlib_module_names:
            return module in _TYPES or module in _FUNCTIONS
        if module not in self._provided:
            found = self._required()
            self._provided[module] = found is not None and found.provide(module)
        return self._provided[module]

    def _is_own(self, top: str) -> bool:
        """Return whether a top-level module is that of the package, and no namespace package."""
        if top != top_of(self.package):
            return False
        try:
            spec = find_spec(top)
        except (ImportError, ValueError, AttributeError):
            return False
        return spec is not None and spec.origin is not None

    def _required(self) -> Dependencies | None:
        if self._dependencies is None:
            self._dependencies = self._find_dependencies()
        return self._dependencies

    def _check(self, name: str, module: str) -> None:
        if not self.allows(module):
            self._refuse(name, module)

    def _follow(self, name: str, module: Any, parts: Sequence[str]) -> Any:
        """Return what a qualified name leads to; each step of it has to be allowed.

        A module has others as attributes, and functions of them.
        """
        found = module
        for part in parts:
            found = getattr(found, part)
            owner = _owner(found)
            if owner is None:
                continue
            if not self.allows(owner):
                self._refuse(name, owner)
            if top_of(owner) in sys.stdlib_module_names and not self._is_harmless(owner, found):
                self._refuse(name, owner)
        return found

    def _is_harmless(self, owner: str, found: Any) -> bool:
        """Return whether something of the standard library may be named, too."""
        if _is_below(owner, self._more()) or isinstance(found, types.ModuleType):
            return True
        if isinstance(found, type):
            return owner in _TYPES
        known = _FUNCTIONS.get(owner, frozenset())
        return known is None or getattr(found, "__name__", "") in known

    def _refuse(self, name: str, module: str) -> None:
        found = self._required()
        raise ImportRefused(self.package, name, module, tuple(found.names) if found else ())


def check_names(names: Any, origin: str) -> tuple[str, ...]:
    """Return the names of modules that a caller allows; ValueError for anything else."""
    is_list = isinstance(names, Iterable) and not isinstance(names, str | bytes)
    listed = tuple(names) if is_list else (names,)
    if not is_list or not all(isinstance(name, str) and is_module(name) for name in listed):
        msg = f"{origin}: expected names of modules, as ['optax'], found {cut(repr(names), 100)}"
        raise ValueError(msg)
    return listed


def is_module(name: str) -> bool:
    """Return whether a text may be the dotted name of a module."""
    return all(part.isidentifier() for part in name.split("."))


def top_of(module: str) -> str:
    """Return the top-level name of a module."""
    return module.partition(".")[0]


def _split(name: Any) -> tuple[str, list[str]]:
    module, _, qualname = name.partition(":") if isinstance(name, str) else ("", "", "")
    parts = qualname.split(".")
    is_name = is_module(module) and all(part.isidentifier() for part in parts)
    if not is_name or any(_is_internal(part) for part in parts):
        msg = f"{cut(repr(name), _LONGEST)} is not the module:qualname of anything public"
        raise ValueError(msg)
    return module, parts


def _is_internal(part: str) -> bool:
    return part.startswith("__") and part.endswith("__") and part != _CALL


def _is_below(module: str, allowed: Iterable[str]) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in allowed)


def _owner(found: Any) -> str | None:
    """Return the module that a module, type or function says it belongs to."""
    if isinstance(found, types.ModuleType):
        return found.__name__
    owner = getattr(found, "__module__", None) if isinstance(found, _CODE) else None
    return owner if isinstance(owner, str) else None
