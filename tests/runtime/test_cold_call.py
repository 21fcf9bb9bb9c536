"""A cold call imports few modules: each costs a fresh process about 0.1 ms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.packages import build, write
from support.processes import fresh

pytestmark = pytest.mark.process

MOST_MODULES = 52
CALL = """
import json, sys
import numpy as np
import aotbuild
aotbuild.load(sys.argv[1], arrays=sys.argv[2]).f(np.ones(3, np.float32))
print(json.dumps(sorted(name for name in sys.modules if name.split(".")[0] == "aotbuild")))
"""
# What is imported only if it is needed: by another call, another package, or an error.
LATE = {
    *(
        "companions",
        "constants",
        "copies",
        "custom_calls",
        "donation",
        "events",
        "keeping",
        "mismatch",
        "padding",
        "preload",
        "readiness",
        "signatures",
    ),
    *("warmup", "wheel_source", "backends.jax.fallback", "backends.protocol"),
    *("argument_copies", "backends.numpy.placing"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    x = np.ones(3, np.float32)
    return write(tmp_path_factory.mktemp("cold"), [build("f", lambda x: x + 1, {"x": x})])


@pytest.mark.parametrize("arrays", ["jax", "numpy"])
def test_modules_until_the_end_of_a_first_call(folder: Path, arrays: str) -> None:
    modules = fresh(CALL, str(folder), arrays)
    assert len(modules) <= MOST_MODULES, "\n".join(modules)
    assert not {f"aotbuild.runtime.{name}" for name in LATE} & set(modules)
