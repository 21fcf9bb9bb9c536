"""Starts watching in every Python that a recorded command starts.

`aotbuild record` puts the folder of this file first on PYTHONPATH, so Python imports it when it
starts. It imports the module that it hides, if there is one, and waits for jax: nothing of aotbuild
is imported in a process that does not import jax. Only the standard library is used here.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path

_HERE = Path(__file__).parent.absolute()


def _start() -> None:
    """Watch this process; a failure is told and stops nothing."""
    try:
        try:
            from aotbuild.record.recorder import Recorder
        except ModuleNotFoundError:
            if getattr(sys.modules.get("aotbuild"), "__file__", None):
                raise  # another version, which the program may use
            # Another environment: what watches is pure Python, and jax is here.
            _import_aotbuild(os.environ["AOTBUILD_RECORD_FROM"])
            from aotbuild.record.recorder import Recorder
        Recorder(os.environ["AOTBUILD_RECORD"]).start()
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


if os.environ.get("AOTBUILD_RECORD"):
    # PYTHONPATH leads to it.
    importlib.import_module("aotbuild_after_jax").call_after_jax(_start)
_import_hidden()
