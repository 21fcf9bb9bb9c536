"""Build the small packages that scripts of this folder measure."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

_AFFINE = """
def affine(params, x):
    return params["w"] * x + params["b"]
"""
_AFFINE_MANIFEST = """
version: 1
package: affine
functions:
  affine:
    call: affine.model:affine
    args: [params: {{w: "f32[size]", b: "f32[size]"}}, x: "f32[size]"]
    dims: {{size: {sizes}}}
    verify: {{golden: never}}
"""


def build_package(root: Path, name: str, source: str, manifest: str) -> Path:
    """Build a package with one module, `name.model`; return its `_aot` folder."""
    (root / name).mkdir()
    (root / name / "__init__.py").touch()
    (root / name / "model.py").write_text(source)
    (root / "aot.yaml").write_text(manifest)
    command = [sys.executable, "-m", "aotbuild.cli", "build", str(root / "aot.yaml")]
    subprocess.run([*command, "--out", str(root / "_aot")], check=True, capture_output=True)
    return root / "_aot"


def build_affine(root: Path, sizes: Iterable[int]) -> Path:
    """Build `affine`, w * x + b, with a signature for each size; return its `_aot` folder."""
    return build_package(root, "affine", _AFFINE, _AFFINE_MANIFEST.format(sizes=list(sizes)))
