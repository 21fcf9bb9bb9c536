"""Executables older than the source: who says so, when, and where nothing is compared."""

from __future__ import annotations

import json
import logging
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cli import invoke
from support.packages import Built, build, write

import aotbuild
from aotbuild.format.canonical import sha256_hex
from aotbuild.format.sources import SourceDigests
from aotbuild.runtime import stale
from aotbuild.verify.api import Options, verify

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
    monkeypatch.setattr(stale, "_warned", set())
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


def warnings(caplog: pytest.LogCaptureFixture, place: Any = "demo") -> list[str]:
    caplog.clear()
    aotbuild.load(place)
    return [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]


class TestLoad:
    def test_nothing_is_said_of_what_is_fresh(
        self, project: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        assert warnings(caplog) == []

    def test_an_edit_is_said_once(self, project: Path, caplog: pytest.LogCaptureFixture) -> None:
        put(project / "src" / "demo" / "model.py", CODE + "# edited", NEW)
        (line,) = warnings(caplog)
        assert line == (
            f"demo: the executables are older than the source: src/demo/model.py in {project} is "
            "not what was compiled. Compile again: aotbuild build --in-place, or pip install -e ."
        )
        assert warnings(caplog) == []
        put(project / "aot.yaml", "version: 1 # edited", NEW)
        (line,) = warnings(caplog, project / "src" / "demo")
        assert "aot.yaml, src/demo/model.py in" in line

    def test_a_touched_file_is_the_same(
        self, project: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        for name, text in FILES.items():
            put(project / name, text, NEW)
        assert warnings(caplog) == []

    def test_a_module_that_is_gone(self, project: Path, caplog: pytest.LogCaptureFixture) -> None:
        (project / "src" / "demo" / "model.py").unlink()
        assert len(warnings(caplog)) == 1

    def test_a_manifest_that_is_elsewhere(
        self, project: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        (project / "aot.yaml").unlink()
        assert warnings(caplog) == []

    def test_precompiled_says_it_too(self, project: Path, caplog: pytest.LogCaptureFixture) -> None:
        put(project / "src" / "demo" / "model.py", CODE + "# edited", NEW)
        call = aotbuild.precompiled("demo:f")(lambda x: x * 2)
        np.testing.assert_array_equal(call(X), X * 2)
        assert "the executables are older than the source" in caplog.text

    def test_an_editable_install(
        self,
        project: Path,
        built: Built,
        tmp_path: Path,
        caplog: pytest.LogCaptureFixture,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """The executables are in site-packages, and a .pth file leads to the source."""
        shutil.rmtree(project / "src" / "demo" / "_aot")
        site = tmp_path / "lib" / "site-packages"
        put_index(site / "demo", built)
        monkeypatch.setattr(sys, "path", [*sys.path, str(site)])
        assert warnings(caplog) == []
        put(project / "src" / "demo" / "model.py", CODE + "# edited", NEW)
        (line,) = warnings(caplog)
        assert f"src/demo/model.py in {project}" in line

    def test_what_a_wheel_installed_is_not_compared(
        self, built: Built, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        site = tmp_path / "lib" / "site-packages"
        put(site / "demo" / "__init__.py", "", NEW)
        put(site / "demo" / "model.py", "changed", NEW)
        put_index(site / "demo", built)
        assert warnings(caplog, site / "demo") == []
        (site / "demo" / "__init__.py").unlink()  # a namespace package
        assert warnings(caplog, site / "demo") == []

    def test_a_folder_far_from_its_source(
        self, project: Path, built: Built, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        put(project / "src" / "demo" / "model.py", CODE + "# edited", NEW)
        assert warnings(caplog, put_index(tmp_path / "elsewhere" / "demo", built)) == []

    def test_an_old_or_malformed_header(
        self, built: Built, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        assert warnings(caplog, write(tmp_path / "old" / "demo", [built])) == []
        bad = write(tmp_path / "bad" / "demo", [built], sources={"files": {"../x": "y"}})
        assert warnings(caplog, bad) == []
        statuses = {o.check: o.status.value for o in verify(str(bad), Options(load=False)).outcomes}
        assert statuses["records"] == "FAIL"


class TestCommands:
    def test_verify(self, project: Path) -> None:
        assert checked("demo") == {project: []}
        put(project / "src" / "demo" / "model.py", CODE + "# edited")  # its time says nothing
        ((root, reasons),) = checked("demo").items()
        assert root == project
        assert "src/demo/model.py" in reasons[0]
        assert invoke("verify", "demo", "--no-run").exit_code == 5

    def test_verify_still_loads_what_is_stale(self, project: Path) -> None:
        put(project / "src" / "demo" / "model.py", CODE + "# edited")
        outcomes = verify("demo", Options(load=False)).outcomes
        (load,) = [outcome for outcome in outcomes if outcome.check == "load"]
        assert load.reasons == ("--no-run: no native code was loaded",)

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

    def test_doctor_far_from_the_source(self, built: Built, tmp_path: Path) -> None:
        folder = put_index(tmp_path / "elsewhere" / "demo", built)
        assert json.loads(invoke("doctor", folder, "--json").stdout)["sources"] is None


def checked(place: str | Path) -> dict[Path, list[str]]:
    """Return the reasons of the check `sources` by its subject."""
    outcomes = verify(str(place), Options(load=False)).outcomes
    return {Path(o.subject): list(o.reasons) for o in outcomes if o.check == "sources"}
