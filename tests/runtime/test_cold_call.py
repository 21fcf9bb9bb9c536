"""A cold call imports few modules: each costs a fresh process about 0.1 ms."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from support.packages import build, write
from support.processes import fresh

pytestmark = pytest.mark.process

MOST_MODULES = 35
CALL = """
import json, sys
import numpy as np
import aotbuild
aotbuild.load(sys.argv[1], arrays=sys.argv[2]).f(np.ones(3, np.float32))
print(json.dumps(sorted(name for name in sys.modules if name.split(".")[0] == "aotbuild")))
"""
# What is imported only if it is needed: by another call, another package, or an error.
LATE = {
    *("call_errors", "companions", "constants", "custom_calls", "explanation", "named_objects"),
    *("padding", "preload", "tree_differences", "wheel_source"),
    *("jax.fallback", "jax.wraps", "numpy.placing"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    x = np.ones(3, np.float32)
    return write(tmp_path_factory.mktemp("cold"), [build("f", lambda x: x + 1, {"x": x})])


@pytest.mark.parametrize("arrays", ["jax", "numpy"])
def test_modules_until_the_end_of_a_first_call(folder: Path, arrays: str) -> None:
    modules = fresh(CALL, str(folder), arrays)
    assert len(modules) <= MOST_MODULES, "\n".join(modules)
    late = {f"aotbuild.runtime.{name}" for name in LATE}
    assert all(find_spec(name) for name in late)
    assert not late & set(modules)
