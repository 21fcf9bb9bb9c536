"""What tests of the guard call: a module of the user's, and functions that nobody has called."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

X = np.ones((2, 4), "float32")
OTHER = np.ones((3, 4), "float32")
SOURCE = """
import jax

@jax.jit
def double(x):
    return x * 2

def call(function, *args):
    return function(*args)
"""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a module of the user's; its function has been called by nobody."""
    (tmp_path / "guarded_source.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "guarded_source", raising=False)
    return importlib.import_module("guarded_source")


def new_jit() -> Callable[..., Any]:
    """Return a jitted function that nobody has called."""
    return jax.jit(lambda x: x * 3)
