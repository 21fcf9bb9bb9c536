"""The source files that an index names: those that functions import, whatever shared a process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.projects import build, write_project

from aotbuild.format.canonical import sha256_hex
from aotbuild.format.index import Index

pytestmark = [pytest.mark.process, pytest.mark.any_jax]

MANIFEST = """\
version: 1
package: proj
functions:
  one:
    call: proj.one:f
    args: [{x: "f32[2]"}]
    verify: {inputs: "proj.inputs:make", golden: always}
  two: {call: proj.two:f, args: [{x: "f32[3]"}]}
"""
MODULES = {
    "one": "from proj import parts\ndef f(x):\n    return x * parts.FACTOR\n",
    "parts": "FACTOR = 3.0\n",
    "inputs": "def make(*_):\n    from proj import late\n    return late.make()\n",
    "late": "import numpy as np\ndef make():\n    return {'x': np.ones(2, 'float32')}\n",
    "two": "def f(x):\n    from proj import inside\n    return x + inside.ONE\n",
    "inside": "ONE = 1.0\n",
    "unused": "",
}
TRACED = ("__init__", "inputs", "inside", "one", "parts", "two")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_project(tmp_path / "here", MANIFEST, **MODULES)


def sources(root: Path, monkeypatch: pytest.MonkeyPatch, jobs: str) -> dict[str, Any]:
    monkeypatch.setenv("AOTBUILD_JOBS", jobs)
    folder = build(root, root / "out" / "_aot").folder
    found: dict[str, Any] = Index.open((folder / "index").read_bytes(), "").header["sources"]
    return found


def test_what_tracing_imports(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not what calls with golden inputs import, which the store may spare."""
    found = sources(root, monkeypatch, "2")
    assert found["manifest"] == "aot.yaml"
    assert found["import_root"] == "."
    assert sorted(found["files"]) == ["aot.yaml", *(f"proj/{name}.py" for name in TRACED)]
    for name, digest in found["files"].items():
        assert digest == sha256_hex((root / name).read_bytes())
    assert found == sources(root, monkeypatch, "2")  # with golden outputs from the store
