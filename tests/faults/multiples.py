"""A package of eight functions, `f0` to `f7`, each of which is right in its own way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.packages import build, write

from aotbuild.runtime.library import Library

X = np.arange(8, dtype=np.float32)
FUNCTIONS = 8
ARRAYS = pytest.mark.parametrize("arrays", ["jax", "numpy"])


def write_multiples(folder: Path) -> Path:
    """Write the package, in which `fn` returns n times its argument, and 1; return its `_aot`."""
    functions = {f"f{n}": (lambda x, n=n: x * n + 1) for n in range(FUNCTIONS)}
    built = [build(name, function, {"x": X}) for name, function in functions.items()]
    return write(folder, built)


def is_right(library: Library, number: int) -> bool:
    """Call a function; return whether the result is right."""
    result = getattr(library, f"f{number}")(X)
    return bool((np.asarray(result) == X * number + 1).all())
