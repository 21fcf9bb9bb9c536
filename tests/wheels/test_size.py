"""Wheels that are too big for PyPI: said after a build, and before it as far as that is known."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.cli import run
from support.projects import write_project
from support.reports import make_function, make_record

from aotbuild.build import size as wheel_size
from aotbuild.build.size import PYPI_LIMIT, compressed_size, size_note
from aotbuild.format.index import write_index
from aotbuild.toolchains.toolchain import probe
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


def put_earlier(folder: Path, *labels: str, data: bytes = b"machine code") -> None:
    """Write the `_aot` folder of an earlier build, whose blobs are `data` and the label."""
    environment = probe()
    records = []
    (folder / "blobs").mkdir(parents=True)
    for label in labels:
        record = make_record(
            "scale",
            target=f"cpu:{environment.isa}:1",
            data=data + label.encode(),
            label=label,
            jaxlib=environment.toolchains[0].jaxlib,
        )
        (folder / record.blob.path).write_bytes(data + label.encode())
        records.append(record)
    index = write_index({"package": "proj"}, [make_function("scale")], records)
    (folder / "index").write_bytes(index)


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
    monkeypatch.setattr(wheel_size, "PYPI_LIMIT", 10_000)
    assert 1000 < compressed_size(files) < 2000


class TestPlan:
    def test_nothing_is_known(self, project: Path) -> None:
        result = run("plan", project / "aot.yaml")
        assert "size:      not known before it is compiled\n" in result.stdout
        document = json.loads(run("plan", project / "aot.yaml", "--json").stdout)
        assert document["known_size"] is None

    def test_of_an_earlier_build(self, project: Path) -> None:
        folder = Path("build/aot/proj/_aot")
        put_earlier(folder, "scale(batch=1)", "scale(batch=2)")
        result = run("plan", project / "aot.yaml")
        size = len("machine codescale(batch=1)")
        assert f"size:      {size} B for 1 of 2 units in {folder}\n" in result.stdout
        assert "warning" not in result.stdout

    def test_the_one_that_knows_more(self, project: Path) -> None:
        put_earlier(Path("build/aot/proj/_aot"), "scale(batch=1)")
        put_earlier(project / "proj" / "_aot", "scale(batch=1)", "scale(batch=8)")
        document = json.loads(run("plan", project / "aot.yaml", "--json").stdout)
        assert document["known_size"]["units"] == 2
        assert document["known_size"]["folder"] == str(project / "proj" / "_aot")
        assert document["known_size"]["warning"] is None

    def test_too_big(self, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(wheel_size, "PYPI_LIMIT", 1000)
        put_earlier(Path("build/aot/proj/_aot"), "scale(batch=1)", data=os.urandom(5000))
        result = run("plan", project / "aot.yaml")
        expected = "warning:   what 1 of 2 units made in an earlier build has 0 MB; PyPI's default"
        assert expected in result.stdout

    @pytest.mark.parametrize("damage", [b"", b"aotbuild-index 9\n", None])
    def test_an_earlier_build_that_cannot_be_read(
        self, project: Path, damage: bytes | None
    ) -> None:
        folder = Path("build/aot/proj/_aot")
        put_earlier(folder, "scale(batch=1)")
        (folder / "index").unlink()
        if damage is not None:
            (folder / "index").write_bytes(damage)
        result = run("plan", project / "aot.yaml")
        assert "size:      not known before it is compiled\n" in result.stdout


@pytest.mark.process
def test_after_a_build(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheel_size, "PYPI_LIMIT", 1000)
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
