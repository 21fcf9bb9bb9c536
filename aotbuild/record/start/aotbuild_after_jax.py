"""Calls a function when jax has been imported; nothing is imported for that.

Only the standard library is used: `sitecustomize` beside it imports it, in any environment.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from typing import Any


def call_after_jax(function: Callable[[], None]) -> Callable[[], object]:
    """Call a function when jax is there, now if it is; return a function that cancels it."""
    if "jax" in sys.modules:
        function()
        return lambda: None
    finder = _Finder(function)
    sys.meta_path.insert(0, finder)
    return finder.take


class _Finder:
    """Finds jax as the other finders do.

    Programs also look for it without importing it, so this stays until it is imported.
    """

    def __init__(self, function: Callable[[], None]) -> None:
        self.function = function
        self._is_looking = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "jax" or self._is_looking:
            return None
        self._is_looking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._is_looking = False
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self)  # type: ignore[assignment]
        return spec

    def take(self) -> bool:
        """Look for nothing any more; return whether it did."""
        is_on = self in sys.meta_path
        if is_on:
            sys.meta_path.remove(self)
        return is_on


class _Loader:
    """Loads a module as its own loader does, which it leaves in its place."""

    def __init__(self, loader: Any, finder: _Finder) -> None:
        self._loader, self._finder = loader, finder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        if self._finder.take():
            self._finder.function()
