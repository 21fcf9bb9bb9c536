"""Hoisted constants that change between two builds of one store: what calls computed counts anew.

The executables take such constants as inputs, so they stay what they are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.cli import run
from support.projects import write_project

pytestmark = pytest.mark.process

# The second size is padded to four rows, where MIX decides whether the rows look at each other.
MODULE = """
import numpy as np
MIX = np.full((64, 64), {}, np.float32)
def f(x):
    return x + x.mean(0) @ MIX
"""
MANIFEST = """
version: 1
package: proj
targets: [cpu]
functions:
  f: {{call: "proj.m:f", args: [x: "f32[b,64]"], dims: {{b: [2, 4]}}, constants: hoist{}}}
"""


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("AOTBUILD_STORE", str(tmp_path / "store"))

    def build(value: float, options: str = "", code: int = 0) -> Any:
        root = write_project(
            tmp_path / f"{value}", MANIFEST.format(options), m=MODULE.format(value)
        )
        monkeypatch.chdir(root)
        return run("build", "--out", root / "_aot", code=code)

    return build


def test_the_padding_check_is_made_again(build: Any) -> None:
    """It was taken from the store, and padded calls returned wrong numbers."""
    build(0.0, ", pad: {b: 0.0}")
    refused = build(1.0, ", pad: {b: 0.0}", code=4)
    assert "result changes in" in refused.stderr


def test_golden_outputs_are_those_of_the_constants(build: Any, tmp_path: Path) -> None:
    """They were those of the first build, and `verify` refused a wheel that was right."""
    for value in (1.0, 4.0):
        build(value)
        run("verify", tmp_path / f"{value}" / "_aot")
