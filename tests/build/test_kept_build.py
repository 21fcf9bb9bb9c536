"""A whole build under one key: taken from the store if nothing has changed, and only then."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support.installs import tree_of
from support.projects import ONE_FUNCTION, write_project

from aotbuild.build.kept_build import installed
from aotbuild.build.pack import Package, build_package
from aotbuild.build.plan import make_plan
from aotbuild.build.progress import Event, UnitDone
from aotbuild.build.project import find_sources
from aotbuild.build.project_files import MOST_FILES, TooLarge, project_files
from aotbuild.build.run_units import BuildOptions
from aotbuild.manifest import load_manifest
from aotbuild.toolchains.toolchain import probe

pytestmark = pytest.mark.process

CODE = "from proj import parts\ndef f(x):\n    return x * parts.FACTOR\n"


class Place:
    """A project with a store."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.store, self.patch = folder, folder / "store", patch
        patch.setenv("AOTBUILD_STORE", str(self.store))
        self.root = write_project(folder / "here", ONE_FUNCTION, code=CODE, parts="FACTOR = 2.0\n")

    def build(self, out: str = "out", *, fresh: bool = False) -> Package:
        plan = make_plan(load_manifest(self.root / "aot.yaml"), probe())
        sources = find_sources(self.root, plan.manifest.package)
        self.done: list[UnitDone] = []
        return build_package(
            plan, sources, self.folder / out / "_aot", self._listen, BuildOptions(fresh=fresh)
        )

    def _listen(self, event: Event) -> None:
        if isinstance(event, UnitDone):
            self.done.append(event)

    def recalls(self) -> bool:
        return self.build().recalled


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    return Place(tmp_path, monkeypatch)


def test_nothing_has_changed(place: Place) -> None:
    first = place.build("first")
    second = place.build("second")
    assert (first.recalled, second.recalled) == (False, True)
    assert tree_of(first.folder) == tree_of(second.folder)
    assert first.records == second.records
    assert first.notes == second.notes
    assert [str(each.unit) for each in place.done] == list(map(str, second.plan.units))
    assert second.summary[0] == "1 unit: 1 from the store, as nothing has changed"
    fresh = place.build("fresh", fresh=True)
    assert not fresh.recalled
    assert tree_of(fresh.folder) == tree_of(first.folder)


def code(text: str) -> Callable[[Place], object]:
    return lambda place: (place.root / "proj" / "code.py").write_text(text)


CHANGES: dict[str, Callable[[Place], object]] = {
    "a module": lambda place: (place.root / "proj" / "parts.py").write_text("FACTOR = 3.0\n"),
    "data": lambda place: (place.root / "data.bin").write_bytes(b"1"),
    "the manifest": lambda place: (place.root / "aot.yaml").write_text(
        ONE_FUNCTION.replace("f32[2]", "f32[3]")
    ),
    "a variable": lambda place: place.patch.setenv("FACTOR", "2"),
    "a folder of imports": lambda place: (place.folder / "libs" / "x.py").write_text("A = 1\n"),
}


def test_what_is_traced_again(place: Place) -> None:
    (place.folder / "libs").mkdir()
    place.patch.syspath_prepend(str(place.folder / "libs"))
    place.build()
    for change in CHANGES:
        CHANGES[change](place)
        assert not place.recalls(), change
        assert place.recalls(), change


def test_outputs_do_not_count(place: Place) -> None:
    place.build()
    for name in ("build/x", "dist/p.whl", ".venv/x", "proj/__pycache__/x.pyc", "proj/_aot/index"):
        path = place.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("new")
    assert place.recalls()


class TestFiles:
    """What counts as the project's files."""

    def test_links(self, tmp_path: Path) -> None:
        (data := tmp_path / "data").mkdir()
        (data / "x").write_text("1")
        (root := tmp_path / "root").mkdir()
        (root / "linked").symlink_to(data)
        (root / "loop").symlink_to(root)
        (root / "gone").symlink_to("nowhere")
        first = project_files(root)
        assert sorted(first) == ["gone", "linked/x"]
        (data / "x").write_text("2")
        assert project_files(root) != first

    def test_names_that_are_no_text(self, tmp_path: Path) -> None:
        (tmp_path / os.fsdecode(b"\xff")).touch()
        assert [*project_files(tmp_path)] == [r"\xff"]

    def test_a_package_may_be_called_build(self, tmp_path: Path) -> None:
        (tmp_path / "build").mkdir()
        (tmp_path / "build" / "__init__.py").touch()
        (tmp_path / "dist").mkdir()
        (tmp_path / "dist" / "x").touch()
        assert [*project_files(tmp_path)] == ["build/__init__.py"]

    def test_too_many(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("aotbuild.build.project_files.MOST_FILES", 2)
        assert MOST_FILES > 2
        for name in "abc":
            (tmp_path / name).touch()
        with pytest.raises(TooLarge):
            project_files(tmp_path)


class TestInstalled:
    """What counts of an environment."""

    @pytest.fixture
    def site(self, tmp_path: Path) -> Path:
        site = tmp_path / "lib" / "site-packages"
        self.distribution(site, "one-1.0", "one.py,sha256=a,1\n")
        return site

    def distribution(self, site: Path, name: str, record: str, editable: str = "") -> None:
        (place := site / f"{name}.dist-info").mkdir(parents=True, exist_ok=True)
        (place / "RECORD").write_text(record)
        if editable:
            url = {"url": f"file://{editable}", "dir_info": {"editable": True}}
            (place / "direct_url.json").write_text(json.dumps(url))

    def test_a_record(self, site: Path, tmp_path: Path) -> None:
        first = installed([str(site)], tmp_path / "root")
        self.distribution(site, "one-1.0", "one.py,sha256=a,1\n../../bin/one,sha256=b,1\n")
        assert installed([str(site)], tmp_path / "root") == first, "a script names its Python"
        self.distribution(site, "one-1.0", "one.py,sha256=c,1\n")
        assert installed([str(site)], tmp_path / "root") != first

    def test_an_editable_one(self, site: Path, tmp_path: Path) -> None:
        (source := tmp_path / "source").mkdir()
        (source / "two.py").write_text("A = 1\n")
        self.distribution(site, "two-1.0", "", editable=str(source))
        first = installed([str(site)], tmp_path / "root")
        (source / "two.py").write_text("A = 2\n")
        assert installed([str(site)], tmp_path / "root") != first
        assert installed([str(site)], source) == installed([str(site)], source)

    def test_a_folder_of_the_project_that_is_not_walked(self, tmp_path: Path) -> None:
        """Where generated modules are, as in `PYTHONPATH=build/gen`."""
        for place in ("build/gen", "src"):
            (tmp_path / place).mkdir(parents=True)
            (tmp_path / place / "three.py").write_text("A = 1\n")
        path = [str(tmp_path / "src"), str(tmp_path / "build" / "gen")]
        first = installed(path, tmp_path)
        (tmp_path / "src" / "three.py").write_text("A = 2\n")
        assert installed(path, tmp_path) == first, "the key has the project's files"
        (tmp_path / "build" / "gen" / "three.py").write_text("A = 2\n")
        assert installed(path, tmp_path) != first
