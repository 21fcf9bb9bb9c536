"""A wheel with `runtime: jaxlib`: installed where there is no jax, and called with numpy."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import jaxlib
import numpy as np
import pytest
from support.installs import build_wheel, install_by_uv
from support.wheel_files import unpack

from aotbuild.format.canonical import sha256_hex
from aotbuild.format.index import Index, write_index
from aotbuild.format.record import Blob
from aotbuild.toolchains.uv import run_uv
from aotbuild.worker.blobs import TENSOR_NAME, serialize

pytestmark = pytest.mark.wheel

FILES = {
    "pyproject.toml": """
[build-system]
requires = ["hatchling>=1.29", "aotbuild[build]"]
build-backend = "hatch_aotbuild.backend"
[project]
name = "slim"
version = "1.0"
dependencies = ["aotbuild", "jaxlib==@"]
[tool.hatch.build.targets.wheel.hooks.aotbuild]
manifest = "aot.yaml"
""".replace("@", jaxlib.__version__),
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


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    project = tmp_path_factory.mktemp("slim") / "project"
    for name, text in FILES.items():
        file = project / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return build_wheel(project, project.parent / "wheels")


@pytest.fixture(scope="module")
def python(built: Path, links: Path) -> Path:
    """An environment with the wheel and what it requires: aotbuild and jaxlib."""
    return install_by_uv(built.parent / "env", built, links=links)


def test_called_where_jax_is_not_installed(python: Path, tmp_path: Path) -> None:
    command = [str(python), "-c", CALL]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == [
        *(True, [4.0, 5.0], "bfloat16", [1.0, 2.0, 3.0], "MissingJax")
    ]


def command_line(
    python: Path, *arguments: str | Path, **env: str
) -> subprocess.CompletedProcess[str]:
    command = [str(python), "-m", "aotbuild", *map(str, arguments)]
    env = {**os.environ, **env}
    return subprocess.run(command, capture_output=True, text=True, cwd=python.parent, env=env)


EVERY_ENTRY = """
import json, aotbuild, numpy as np
library, x, said = aotbuild.load("slim", arrays="numpy"), np.eye(3, dtype="float32"), []
for use in (
    lambda: library.solve(x), library.preload, lambda: library.explain("solve", x),
    lambda: library.place(x), lambda: library.on("cpu").solve(x),
):
    try:
        use()
    except aotbuild.errors.NoExecutable as err:
        said.append(str(err))
print(json.dumps(said))
"""


def test_beside_another_jaxlib(python: Path, tmp_path: Path) -> None:
    """Versions are compared before private names are imported, some of which 0.10.1 lacks."""
    other = ("--quiet", "--no-deps", "--target", tmp_path, "jaxlib==0.10.1")
    run_uv(("pip", "install", "--python", python, *other), tmp_path)
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [python, "-c", EVERY_ENTRY]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=env)
    reason = f"jaxlib: expected {jaxlib.__version__}, found 0.10.1"
    remedy = f"Install jaxlib=={jaxlib.__version__}, or a wheel of slim that was built with"
    said = f"slim: no executable may run here\n  {reason}\n{remedy} the jaxlib that is installed."
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [said] * 5
    for command, code in (("doctor", 5), ("verify", 0)):
        done = command_line(python, command, "slim", PYTHONPATH=str(tmp_path))
        assert (done.returncode, done.stderr) == (code, "")
        assert reason in done.stdout


def test_in_a_bundle_and_in_a_zip_file(built: Path, links: Path, tmp_path: Path) -> None:
    """PyInstaller's program has the parts, kernels and executables that are found by name only."""
    bundler = install_by_uv(tmp_path / "env", built, "pyinstaller", links=links)
    (tmp_path / "app.py").write_text(CALL)
    options = ("--log-level", "ERROR", "--exclude-module", "setuptools", "app.py")
    command = [bundler, "-m", "PyInstaller", *options]
    subprocess.run(command, check=True, capture_output=True, cwd=tmp_path)
    (aotbuild_wheel,) = links.glob("aotbuild-*.whl")
    env = {**os.environ, "PYTHONPATH": str(aotbuild_wheel), "JAX_PLATFORMS": "tpu,cpu"}
    for program, settings in (
        ([tmp_path / "dist" / "app" / "app"], os.environ),
        ([bundler, "-c", CALL], env),
    ):
        done = subprocess.run(
            program, capture_output=True, text=True, cwd=tmp_path, env=dict(settings)
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)[-1] == "MissingJax"


@pytest.mark.any_jax
def test_nothing_is_installed_but_what_it_requires(python: Path) -> None:
    code = (
        "from importlib.metadata import distributions\n"
        "print(*sorted(d.name.lower().replace('_', '-') for d in distributions()))\n"
    )
    listed = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    names = set(listed.stdout.split())
    own = {"aotbuild", "slim"}
    assert names == {*own, "jaxlib", "ml-dtypes", "numpy", "scipy"}


@pytest.mark.any_jax
@pytest.mark.parametrize("command", ["inspect", "doctor", "verify --no-run", "verify"])
def test_commands_need_nothing_else(python: Path, built: Path, command: str) -> None:
    done = command_line(python, *command.split(), "slim")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    done = command_line(python, *command.split(), built)
    if "verify" in command:  # `installer` reads wheels, and an installed package needs none
        assert done.returncode == 2
        assert "aotbuild[build]" in done.stderr
    else:
        assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_verify_finds_what_computes_something_else(
    python: Path, built: Path, tmp_path: Path
) -> None:
    """Golden outputs that are those of other arguments."""
    unpack(built, tmp_path)
    folder = tmp_path / "slim" / "_aot"
    give_other_arguments(folder, "solve")
    done = command_line(python, "verify", folder, "--json")
    failed = [c for c in json.loads(done.stdout)["checks"] if c["status"] == "FAIL"]
    assert done.returncode == 5
    assert [(c["check"], c["subject"].partition("(")[0]) for c in failed] == [("golden", "solve")]
    assert "sampled elements differ" in failed[0]["reasons"][0]


def give_other_arguments(folder: Path, function: str) -> None:
    data = serialize({TENSOR_NAME: np.eye(3, dtype="float32") * 7})
    blob = Blob("safetensors", sha256_hex(data), len(data))
    (folder / blob.path).write_bytes(data)
    index = Index.open((folder / "index").read_bytes(), "index")
    functions = list(index.functions())
    records = [record for f in functions for record in index.records(f.name)]
    for at, record in enumerate(records):
        if record.function == function:
            assert record.golden is not None
            records[at] = replace(record, golden=replace(record.golden, inputs=((0, blob),)))
    (folder / "index").write_bytes(write_index(index.header, functions, records))
