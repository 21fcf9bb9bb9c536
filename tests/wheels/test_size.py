"""Wheels that are too big for PyPI: said after a build, and of the finished wheel."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.cli import run
from support.projects import write_project

from aotbuild.build import package_size
from aotbuild.build.package_size import PYPI_LIMIT, compressed_size, size_note
from hatch_aotbuild.plugin import AotBuildHook

MANIFEST = """\
version: 1
package: proj
targets: [cpu]
functions:
  scale: {call: "proj.code:scale", args: [{x: "f32[batch]"}], dims: {batch: [1, 8]}}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write_project(tmp_path / "here", MANIFEST, code="def scale(x):\n    return x * 2\n")


def test_the_note() -> None:
    assert size_note(PYPI_LIMIT, "x.whl") is None
    assert size_note(PYPI_LIMIT + 20_000_000, "x.whl") == (
        "x.whl has 120 MB; PyPI's default limit for one file is 100 MB. `aotbuild split` makes a "
        "base wheel and one for each family of targets"
    )


def test_only_what_could_be_too_big_is_compressed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [tmp_path / "zeros", tmp_path / "noise"]
    files[0].write_bytes(bytes(100_000))
    files[1].write_bytes(os.urandom(1000))
    assert compressed_size(files) == 101_000
    monkeypatch.setattr(package_size, "PYPI_LIMIT", 10_000)
    assert 1000 < compressed_size(files) < 2000


@pytest.mark.process
def test_after_a_build(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package_size, "PYPI_LIMIT", 1000)
    result = run("build", project / "aot.yaml", "--out", "out")
    assert "note: compressed, what was built has 0 MB; PyPI's default limit" in result.stdout


@pytest.mark.parametrize(("size", "count"), [(PYPI_LIMIT, 0), (PYPI_LIMIT + 1, 1)])
def test_the_hook_warns_of_the_finished_wheel(size: int, count: int, tmp_path: Path) -> None:
    warnings: list[str] = []

    class App:
        display_warning = staticmethod(warnings.append)
        display_info = staticmethod(lambda _: None)

    wheel = tmp_path / "proj-1.0-py3-none-any.whl"
    with wheel.open("wb") as file:
        file.truncate(size)
    app: Any = App()
    nothing: Any = None
    metadata: Any = SimpleNamespace(hatch=SimpleNamespace(config={}))
    hook = AotBuildHook(str(tmp_path), {}, nothing, metadata, str(tmp_path), "wheel", app)
    hook.finalize("standard", {}, str(wheel))
    assert [w.startswith(f"aotbuild: {wheel.name} has 100 MB") for w in warnings] == [True] * count
