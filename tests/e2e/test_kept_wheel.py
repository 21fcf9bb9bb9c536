"""A wheel that an earlier version of aotbuild built still loads, runs and verifies.

`tests/packages/kept` holds its project and the wheel as commit 3c328d3 built it, for jaxlib 0.10.2
and 0.12.0.1 at the level x86-64-v2+avx. The wheel is never built again: that is its use.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from jaxlib.version import __version__ as jaxlib
from support.processes import fresh
from support.projects import PACKAGES

(WHEEL,) = (PACKAGES / "kept").glob("*.whl")
JAXLIBS = ("0.10.2", "0.12.0.1")

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(
        platform.machine() != "x86_64" or jaxlib not in JAXLIBS,
        reason=f"the kept wheel is for x86-64 and jaxlib {' or '.join(JAXLIBS)}",
    ),
]

CALLS = """
import json, sys
import numpy as np
import aotbuild

lib = aotbuild.load(sys.argv[1], arrays=sys.argv[2])
ones = {"w": np.ones((4, 2), "float32"), "b": np.zeros(2, "float32")}
exact = lib.score(ones, np.ones((4, 4), "float32"), activation="relu")
padded = lib.score(ones, np.ones((3, 4), "float32"), activation="tanh")
values, _ = lib.solve(np.diag(np.arange(1.0, 4.0, dtype="float32")))
drawn = []
if sys.argv[2] == "jax":
    import jax
    drawn = np.asarray(lib.draw(jax.random.key(7)) - np.arange(512)).tolist()
stats = lib.stats()
print(json.dumps([
    np.asarray(exact["scores"]).tolist(), np.asarray(padded["scores"]).tolist(),
    np.asarray(padded["x"]).shape, np.asarray(values).tolist(), drawn,
    stats["fallbacks"], stats["padded"],
]))
"""


@pytest.mark.parametrize("arrays", ["jax", "numpy"])
def test_its_functions_return_what_they_returned(arrays: str) -> None:
    exact, padded, shape, values, drawn, fallbacks, calls = fresh(CALLS, str(WHEEL), arrays)
    assert exact == [[4.0, 4.0]] * 4
    np.testing.assert_allclose(padded, np.full((3, 2), np.tanh(4.0)), rtol=1e-6)
    assert shape == [3, 4]
    np.testing.assert_allclose(values, [1.0, 4.0, 9.0], rtol=1e-6)
    assert (fallbacks, calls) == ({"portable": 0, "jit": 0}, 1)
    if arrays == "jax":
        import jax

        expected = jax.random.normal(jax.random.key(7), (512,))
        np.testing.assert_allclose(drawn, expected, atol=1e-4)


def test_it_verifies(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "aotbuild.cli", "verify", str(WHEEL), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    # The executables of the other jaxlib are not for this one.
    assert list(found["elsewhere"].values()) == [6]
    counts = {"PASS": 35, "FAIL": 0, "CRASHED": 0, "TIMED OUT": 0, "NOT CHECKED": 14}
    assert found["counts"] == counts
