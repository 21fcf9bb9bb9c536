"""Where hatchling packs from is where the hook finds the package, however the project says it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from support.projects import ONE_FUNCTION, PYPROJECT, write_project

pytestmark = pytest.mark.process

LAYOUTS = {
    "sources": 'only-include = ["python/proj"]\nsources = ["python"]',
    "a table": 'include = ["python/proj"]\n'
    '[tool.hatch.build.targets.wheel.sources]\n"python/proj" = "proj"',
}
# A colon in its name once ended the hook with a traceback.
NAMES = {"sources": "aot.yaml", "a table": "aot:prod.yaml"}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_where_hatchling_packs_from(tmp_path: Path, layout: str) -> None:
    root = write_project(tmp_path / "here", ONE_FUNCTION, code="def f(x):\n    return x + 1\n")
    (root / "python").mkdir()
    (root / "proj").rename(root / "python" / "proj")
    (root / "aot.yaml").rename(root / NAMES[layout])
    text = PYPROJECT.replace('packages = ["proj"]', LAYOUTS[layout])
    (root / "pyproject.toml").write_text(f'{text}manifest = "{NAMES[layout]}"\n')
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
    ended = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (found,) = root.glob("dist/*.whl")
    assert {"proj/code.py", "proj/_aot/index"} <= {*ZipFile(found).namelist()}
