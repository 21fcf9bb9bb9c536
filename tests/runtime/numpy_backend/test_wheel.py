"""A wheel with `runtime: jaxlib`: installed where there is no jax, and called with numpy."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from support.installs import build_wheel, install_by_uv

pytestmark = pytest.mark.wheel

FILES = {
    "pyproject.toml": """
[build-system]
requires = ["hatchling>=1.29", "aotbuild[build]"]
build-backend = "hatch_aotbuild.backend"
[project]
name = "slim"
version = "1.0"
dynamic = ["dependencies"]
[tool.hatch.metadata.hooks.aotbuild]
[tool.hatch.build.targets.wheel.hooks.aotbuild]
manifest = "aot.yaml"
""",
    "aot.yaml": """
version: 1
package: slim
runtime: jaxlib
functions:
  predict:
    call: slim.model:predict
    args:
      - params: {w: "f32[4,2]", b: "f32[2]"}
      - x: bf16[batch,4]
    dims: {batch: [1, 8]}
    constants: hoist
  solve:
    call: slim.model:solve
    args: [x: "f32[3,3]"]
""",
    "slim/__init__.py": "",
    "slim/model.py": """
import jax.numpy as jnp
import numpy as np
TABLE = np.arange(2, dtype="float32")
def predict(params, x):
    return {"y": x.astype("float32") @ params["w"] + params["b"] + TABLE, "x": x}
def solve(x):
    return jnp.linalg.eigh(x)
""",
}
CALL = """
import json
from importlib.util import find_spec
import aotbuild
library = aotbuild.load("slim", arrays="numpy")
import ml_dtypes, numpy as np
params = {"w": np.ones((4, 2), "float32"), "b": np.zeros(2, "float32")}
x = np.ones((8, 4), ml_dtypes.bfloat16)
found = library.predict(params, x)
values, _ = library.solve(np.diag([3, 1, 2]).astype("float32"))
try:
    aotbuild.load("slim")
except ImportError as err:
    missing = type(err).__name__
sums, kind = found["y"][7].tolist(), str(found["x"].dtype)
print(json.dumps([find_spec("jax") is None, sums, kind, values.tolist(), missing]))
"""


def test_called_where_jax_is_not_installed(links: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    for name, text in FILES.items():
        file = project / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    wheel = build_wheel(project, tmp_path / "wheels")
    python = install_by_uv(tmp_path / "env", wheel, links=links)
    command = [str(python), "-c", CALL]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == [
        *(True, [4.0, 5.0], "bfloat16", [1.0, 2.0, 3.0], "MissingJax"),
    ]
