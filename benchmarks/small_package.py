"""Build the small packages that scripts of this folder measure."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def build_package(root: Path, name: str, source: str, manifest: str) -> Path:
    """Build a package with one module, `name.model`; return its `_aot` folder."""
    (root / name).mkdir()
    (root / name / "__init__.py").touch()
    (root / name / "model.py").write_text(source)
    (root / "aot.yaml").write_text(manifest)
    command = [sys.executable, "-m", "aotbuild.cli", "build", str(root / "aot.yaml")]
    subprocess.run([*command, "--out", str(root / "_aot")], check=True, capture_output=True)
    return root / "_aot"
