"""Starts watching in every Python that a recorded command starts.

`aotbuild record` puts the folder of this file first on PYTHONPATH, so Python imports it when it
starts. It imports the module that it hides, if there is one, and waits for jax: nothing of aotbuild
is imported in a process that does not import jax. Only the standard library is used here.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent.absolute()


class _AfterJax:
    """Finds jax as the other finders do, and starts watching when it has been imported."""

    def find_spec(self, name: str, *_: Any) -> Any:
        if name != "jax" or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)  # type: ignore[assignment]
        return spec


class _Loader:
    """Loads a module as its own loader does, which it leaves in its place."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        _start()


def _start() -> None:
    """Watch this process; a failure is told and stops nothing."""
    try:
        try:
            from aotbuild.watch.recorder import Recorder
        except ModuleNotFoundError:
            # Another environment: what watches is pure Python, and jax is here.
            sys.path.append(os.environ["AOTBUILD_RECORD_FROM"])
            from aotbuild.watch.recorder import Recorder
        Recorder(os.environ["AOTBUILD_RECORD"]).start()
    except Exception as err:  # noqa: BLE001 - the program must go on, whatever it is
        with contextlib.suppress(AttributeError, OSError, ValueError):  # a daemon has closed it
            name = type(err).__name__
            sys.stderr.write(f"aotbuild: this process is not recorded: {name}: {err}\n")


def _import_hidden() -> None:
    """Import the `sitecustomize` that Python would have imported without this one."""
    rest = [entry for entry in sys.path if Path(entry).absolute() != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", rest)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if os.environ.get("AOTBUILD_RECORD"):
    sys.meta_path.insert(0, _AfterJax())
_import_hidden()
