"""Companions: found by entry points, opened like the base, refused if they are not its own."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from attacks import wheels
from support.cli import invoke
from support.packages import Built, build, portable
from support.processes import fresh
from support.wheel_files import everywhere, for_target, put_wheel, unpack

import aotbuild
from aotbuild.errors import CompanionMismatch, DamagedBlob, NoExecutable
from aotbuild.runtime import companions
from aotbuild.runtime.api import locate
from aotbuild.runtime.checked_blobs import open_index
from aotbuild.wheels.split import split

X = np.arange(3, dtype=np.float32)


@pytest.fixture(scope="module")
def built() -> list[Built]:
    native = build("double", lambda x: x * 2, {"x": X})
    return [native, portable(native, lambda x: x * 2)]


@pytest.fixture(scope="module")
def parts(built: list[Built], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheels of a package, by their part; what runs here is in the companion for CPUs."""
    root = tmp_path_factory.mktemp("wheels")
    wheel = put_wheel(root / wheels.NAME, everywhere(built))
    written = split(wheel, root / "out", ["portable"])
    names = ["base", "cpu", "cuda", "tpu"]
    return dict(zip(names, written, strict=True))


def install(site: Path, parts: dict[str, Path], names: Sequence[str]) -> None:
    for name in names:
        unpack(parts[name], site)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of sys.path."""
    place = tmp_path / "site"
    place.mkdir()
    monkeypatch.syspath_prepend(str(place))
    return place


def test_a_call_runs_the_executable_of_a_companion(site: Path, parts: dict[str, Path]) -> None:
    install(site, parts, parts)
    library = aotbuild.load("demo")
    np.testing.assert_array_equal(library.double(X), X * 2)
    assert library.functions == ("double",)
    assert library.stats()["executables"] == 4
    targets = {record.target.platform for record in library.double.records}
    assert targets == {"cpu", "cuda", "tpu", "portable"}
    assert library.preload() == 0  # loaded by the call


@pytest.mark.process
def test_companions_are_not_imported(site: Path, parts: dict[str, Path]) -> None:
    install(site, parts, parts)
    for folder in site.glob("demo*"):
        (folder / "__init__.py").write_text("raise RuntimeError('imported')\n")
    code = (
        "import sys, json, aotbuild\n"
        "lib = aotbuild.load('demo')\n"
        "print(json.dumps([n for n in sys.modules if n.startswith('demo')]))\n"
    )
    assert fresh(code, path=site) == []


def test_what_is_not_installed_is_named(site: Path, parts: dict[str, Path]) -> None:
    install(site, parts, ["base", "tpu"])
    with pytest.raises(NoExecutable) as caught:
        aotbuild.load("demo").double(X)
    trace = caught.value.trace
    assert "executables for cpu: not installed: pip install demo-aot-cpu" in trace
    assert "executables for cuda: not installed: pip install demo-aot-cuda" in trace
    assert not any("tpu: not installed" in line for line in trace)


def test_a_path_is_the_base_alone(site: Path, parts: dict[str, Path]) -> None:
    install(site, parts, parts)
    for place in (site / "demo", parts["base"]):
        records = aotbuild.load(place).double.records
        assert [record.target.platform for record in records] == ["portable"]


@pytest.mark.process
def test_nothing_is_looked_up_for_a_package_in_one_piece(
    site: Path, built: list[Built], tmp_path: Path
) -> None:
    unpack(put_wheel(tmp_path / wheels.NAME, built), site)
    code = (
        "import sys, json, aotbuild\n"
        "aotbuild.load('demo')\n"
        "print(json.dumps('importlib.metadata' in sys.modules))\n"
    )
    assert fresh(code, path=site) is False


class TestRefused:
    def test_of_another_build(
        self, site: Path, parts: dict[str, Path], built: list[Built], tmp_path: Path
    ) -> None:
        install(site, parts, ["base"])
        records = [*built, for_target(built[0], "tpu:v5e:4x4:1")]
        wheel = put_wheel(tmp_path / "other" / wheels.NAME, records)
        unpack(split(wheel, tmp_path / "out")[1], site)
        with pytest.raises(CompanionMismatch) as caught:
            aotbuild.load("demo")
        error = caught.value
        assert (error.package, error.companion) == ("demo", "demo-aot-tpu 1.0")
        assert error.expected.startswith("part tpu of demo, of the build ")
        assert error.found.startswith("part tpu of demo, of the build ")
        assert error.expected != error.found
        assert "pip uninstall demo-aot-tpu" in str(error)

    @pytest.mark.parametrize(
        ("text", "found"),
        [
            ("[aotbuild.companions]\ndemo = elsewhere\n", "elsewhere"),
            ("[aotbuild.companions]\nother = demo_aot_tpu\n", "none"),
            ("", "none"),
        ],
    )
    def test_another_entry_point(
        self, site: Path, parts: dict[str, Path], text: str, found: str
    ) -> None:
        install(site, parts, ["base", "tpu"])
        (site / "demo_aot_tpu-1.0.dist-info" / "entry_points.txt").write_text(text)
        with pytest.raises(CompanionMismatch) as caught:
            aotbuild.load("demo")
        assert caught.value.found == found

    @pytest.mark.parametrize("is_file", [True, False])
    def test_a_damaged_blob_is_named_where_it_is(
        self, site: Path, parts: dict[str, Path], is_file: bool
    ) -> None:
        install(site, parts, ["base", "cpu"])
        (blob,) = (site / "demo_aot_cpu" / "_aot" / "blobs").iterdir()
        if is_file:
            blob.write_bytes(b"?" * blob.stat().st_size)
        else:
            blob.unlink()
            blob.mkdir()
        with pytest.raises(DamagedBlob) as caught:
            aotbuild.load("demo").double(X)
        assert caught.value.place == str(blob)


def test_doctor_lists_companions(site: Path, parts: dict[str, Path]) -> None:
    install(site, parts, ["base", "cpu"])
    shown = invoke("doctor", "demo").output
    assert "companion  demo-aot-cpu 1.0\n" in shown
    assert "companion  demo-aot-cuda not installed\n" in shown
    assert "1 of 1 signatures have an executable that runs here" in shown


def test_found_in_another_folder_of_the_path(
    site: Path, parts: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(site, parts, ["base"])
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.syspath_prepend(str(other))
    assert str(other) in sys.path
    install(other, parts, ["cpu"])
    source = locate("demo")
    index = open_index(source)
    found = companions.find(source, index, "demo")
    assert [(c.part, c.version) for c in found if c.version] == [("cpu", "1.0")]
    _, joined = companions.join(source, index, found)
    assert joined.row_count == len(list(index.functions())) + 2
