"""Executables older than the source: who says so, when, and where nothing is compared."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from support.cli import invoke
from support.packages import Built, build, write

from aotbuild.format.canonical import sha256_hex
from aotbuild.format.sources import SourceDigests
from aotbuild.verify.api import verify

X = np.ones(4, "float32")
CODE = "def f(x): return x * 2\n"
FILES = {"aot.yaml": "version: 1\n", "src/demo/__init__.py": "", "src/demo/model.py": CODE}
OLD, NEW = 1_000_000_000_000_000_000, 2_000_000_000_000_000_000


@pytest.fixture(scope="module")
def built() -> Built:
    return build("f", lambda x: x * 2, {"x": X})


@pytest.fixture
def project(built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with its executables in place, built after its files were written."""
    root = tmp_path / "project"
    for name, text in FILES.items():
        put(root / name, text)
    put_index(root / "src" / "demo", built)
    monkeypatch.syspath_prepend(str(root / "src"))
    return root


def put(file: Path, text: str, time: int = OLD) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    os.utime(file, ns=(time, time))


def put_index(package: Path, built: Built, import_root: str = "src") -> Path:
    files = {name: sha256_hex(text.encode()) for name, text in FILES.items()}
    header = SourceDigests(files, import_root, "aot.yaml").to_header()
    folder = write(package, [built], **header)
    os.utime(folder / "index", ns=(OLD + 1, OLD + 1))
    return folder


class TestCommands:
    def test_verify(self, project: Path) -> None:
        assert checked("demo") == {project: []}
        put(project / "src" / "demo" / "model.py", CODE + "# edited")  # its time says nothing
        ((root, reasons),) = checked("demo").items()
        assert root == project
        assert "src/demo/model.py" in reasons[0]
        assert invoke("verify", "demo", "--no-run").exit_code == 5

    def test_verify_finds_the_project_of_a_folder_in_it(self, project: Path, built: Built) -> None:
        folder = put_index(project / "build" / "aot" / "demo", built)
        assert checked(folder) == {project: []}
        put(project / "src" / "demo" / "model.py", CODE + "# edited")
        assert len(checked(folder)[project]) == 1

    def test_verify_leaves_out_what_is_far_from_its_source(
        self, built: Built, tmp_path: Path
    ) -> None:
        assert checked(put_index(tmp_path / "elsewhere" / "demo", built)) == {}

    def test_doctor(self, project: Path) -> None:
        document = json.loads(invoke("doctor", "demo", "--json").stdout)
        assert document["sources"] == {"root": str(project), "changed": []}
        put(project / "src" / "demo" / "model.py", CODE + "# edited")
        document = json.loads(invoke("doctor", "demo", "--json").stdout)
        assert document["sources"] == {"root": str(project), "changed": ["src/demo/model.py"]}
        result = invoke("doctor", "demo")
        assert result.exit_code == 0
        assert "the executables are older than the source" in result.stdout


def checked(place: str | Path) -> dict[Path, list[str]]:
    """Return the reasons of the check `sources` by its subject."""
    outcomes = verify(str(place), load=False).outcomes
    return {Path(o.subject): list(o.reasons) for o in outcomes if o.check == "sources"}
