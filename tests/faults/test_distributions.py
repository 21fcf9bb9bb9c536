"""Damaged `.dist-info` folders of other distributions, as interrupted installations leave them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from faults.ended import assert_done, command
from support.processes import ROOT

pytestmark = pytest.mark.process

# Folders `jax_NAME-1.0.dist-info`; `doctor` asks for what is named `jax-…`.
DAMAGES = {
    "empty": {},
    "unnamed": {"METADATA": b"Metadata-Version: 2.1\nVersion: 1.0\n"},
    "unversioned": {"METADATA": b"Metadata-Version: 2.1\nName: jax-unversioned\n"},
    "binary": {"METADATA": b"\xff\xfe", "RECORD": b"\xff\xfe"},
    "other": {"RECORD": b"other.py,,\n", "top_level.txt": b"other\n"},
}
PROGRAM = """\
import jax
from other import f
print(jax.jit(f)(1.0))
"""


def test_damaged_distributions(tmp_path: Path) -> None:
    site = tmp_path / "site"
    for name, files in DAMAGES.items():
        info = site / f"jax_{name}-1.0.dist-info"
        info.mkdir(parents=True)
        for file, data in files.items():
            (info / file).write_bytes(data)
    (site / "other.py").write_text("def f(x):\n    return x + 1\n")
    (tmp_path / "program.py").write_text(PROGRAM)
    path = f"{site}:{ROOT}"
    assert_done(command("doctor", PYTHONPATH=path))
    words = ("record", "--", sys.executable, "program.py")
    assert_done(command(*words, cwd=tmp_path, PYTHONPATH=path))
    assert "other:f" in (tmp_path / "aot.yaml").read_text()
