"""Starts watching in every Python that a recorded command starts.

`aotbuild record` puts the folder of this file first on PYTHONPATH, so Python imports it when it
starts. It imports the module that it hides, if there is one, and waits for jax: nothing of aotbuild
is imported in a process that does not import jax. Only the standard library is used here.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent.absolute()


def _start() -> None:
    """Watch this process; a failure is told and stops nothing."""
    try:
        log, check, packages = json.loads(os.environ["AOTBUILD_RECORD"])
        try:
            from aotbuild.record.recorder import Recorder
        except ModuleNotFoundError:
            if getattr(sys.modules.get("aotbuild"), "__file__", None):
                raise  # another version, which the program may use
            # Another environment: what watches is pure Python, and jax is here.
            _import_aotbuild(packages)
            from aotbuild.record.recorder import Recorder
        Recorder(log, check).start()
    except Exception as err:  # noqa: BLE001 - the program must go on, whatever it is
        with contextlib.suppress(AttributeError, OSError, ValueError):  # a daemon has closed it
            name = type(err).__name__
            sys.stderr.write(f"aotbuild: this process is not recorded: {name}: {err}\n")


def _import_aotbuild(folder: str) -> None:
    """Import aotbuild from a folder, and nothing else that is there."""
    spec = importlib.machinery.PathFinder.find_spec("aotbuild", [folder])
    if spec is not None and spec.loader is not None:
        module = sys.modules["aotbuild"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


def _import_hidden() -> None:
    """Import the `sitecustomize` that Python would have imported without this one."""
    rest = [entry for entry in sys.path if Path(entry).absolute() != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", rest)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


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


if os.environ.get("AOTBUILD_RECORD"):
    sys.meta_path.insert(0, _Finder(_start))
_import_hidden()
