"""The module of the program itself, which is `__main__` here and has its own name elsewhere.

A build imports `train.py` as `train`, so a recording names what is in it `train:step`. What
another process cannot import, such as a program given by `-c`, has no such name.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any

MAIN = "__main__"
_PREFIX = f"{MAIN}:"


@functools.cache
def main_name() -> str:
    """Return the name by which another process imports the program's module; empty if none does."""
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


def renamed(data: Any) -> Any:
    """Return JSON in which names in the program's module are as another process has them."""
    if isinstance(data, str):
        return f"{main_name()}:{data.removeprefix(_PREFIX)}" if data.startswith(_PREFIX) else data
    if isinstance(data, list):
        return [renamed(item) for item in data]
    if isinstance(data, dict):
        return {key: renamed(value) for key, value in data.items()}
    return data
