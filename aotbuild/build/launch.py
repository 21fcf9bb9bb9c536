"""The command and the variables that a worker process starts with."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from aotbuild.build.settings import Settings
from aotbuild.store.place import VARIABLE
from aotbuild.toolchains.toolchain import Toolchain

_PACKAGE = Path(__file__).resolve().parent.parent


def worker_command(toolchain: Toolchain, import_root: Path) -> list[str]:
    """Return the command of a worker that imports the project's sources from `import_root`.

    The running interpreter imports what its parent does; another one what its environment has.
    """
    given = {
        "aotbuild": str(_PACKAGE),
        "path": worker_path(toolchain, import_root),
        "whole": toolchain.interpreter is None,
        "module": "aotbuild.worker.main",
    }
    interpreter = str(toolchain.interpreter or sys.executable)
    # -P: nothing is imported from the script's own folder.
    return [interpreter, "-P", str(_PACKAGE / "worker" / "start.py"), json.dumps(given)]


def worker_path(toolchain: Toolchain, import_root: Path) -> list[str]:
    """Return the entries of sys.path that a worker is given; another interpreter adds its own."""
    path = [str(import_root)]
    if toolchain.interpreter is None:
        path += [str(Path(entry).absolute()) for entry in sys.path if entry]
    return path


def worker_environment(settings: Settings) -> dict[str, str]:
    """Return the variables of a worker; only this Python gets those that move its imports.

    Where the store is is the business of the build alone.
    """
    environment = settings.environment(dict(os.environ))
    environment.pop(VARIABLE, None)
    if settings.toolchain.interpreter is not None:
        for name in ("PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV"):
            environment.pop(name, None)
    return environment
