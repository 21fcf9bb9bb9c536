"""Damaged `.dist-info` folders of other distributions, as interrupted installations leave them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from faults.ended import assert_done, command
from support.processes import ROOT

pytestmark = pytest.mark.process

# What is in `jax_other-1.0.dist-info`, whose name is one that `doctor` asks for.
DAMAGES = {
    "that is empty": {},
    "without METADATA": {"RECORD": b"other.py,,\n", "top_level.txt": b"other\n"},
    "without a version": {"METADATA": b"Metadata-Version: 2.1\nName: jax-other\n"},
    "without a name": {"METADATA": b"Metadata-Version: 2.1\nVersion: 1.0\n"},
    "of bytes that are no text": {"METADATA": b"\xff\xfe", "RECORD": b"\xff\xfe"},
}
# importlib_metadata takes the place of importlib.metadata, and raises other errors.
LIBRARIES = ("importlib.metadata", "importlib_metadata")
PROGRAM = """\
import LIBRARY, jax
from other import f
print(jax.jit(f)(1.0))
"""


@pytest.fixture
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder of sys.path with such a folder, and its module."""
    folder = tmp_path / "site"
    info = folder / "jax_other-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "other.py").write_text("def f(x):\n    return x + 1\n")
    for name, data in DAMAGES[request.param].items():
        (info / name).write_bytes(data)
    return folder


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("site", DAMAGES, indirect=True)
class TestDistInfo:
    def test_doctor(self, site: Path, library: str) -> None:
        pytest.importorskip(library)
        code = f"import {library}, sys; from aotbuild.cli.__main__ import main; sys.exit(main())"
        launcher = (sys.executable, "-c", code)
        path = f"{site}:{ROOT}"
        assert_done(command("doctor", launcher=launcher, PYTHONPATH=path))

    def test_record(self, site: Path, tmp_path: Path, library: str) -> None:
        pytest.importorskip(library)
        program = tmp_path / "program.py"
        program.write_text(PROGRAM.replace("LIBRARY", library))
        words = ("record", "--", sys.executable, program)
        assert_done(command(*words, cwd=tmp_path, PYTHONPATH=f"{site}:{ROOT}"))
        assert "other:f" in (tmp_path / "aot.yaml").read_text()
