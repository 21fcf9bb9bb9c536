"""AOTBUILD_PREBUILT: a finished folder in place of a compilation, if it is what a build makes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.installs import tree_of
from support.projects import MANIFEST, build, write_project

from aotbuild.build.finished import Finished, WheelInputs
from aotbuild.build.planned import PlanInputs, front_digests, wheel_needs
from aotbuild.errors import AotbuildError, DamagedBlob, PlanError, StagesNotFound
from aotbuild.format.layout import stages_path
from aotbuild.format.shard import Shard
from hatch_aotbuild.options import PREBUILT, chosen_folder
from hatch_aotbuild.prebuilt import take_prebuilt

TEXT = """
version: 1
package: proj
targets: [cpu, portable]
keep: {stages: [hlo]}
functions:
  f: {call: "proj.m:f", args: [x: "f32[n]"], dims: {n: [2, 3]}}
  g: {call: "proj.m:f", args: [x: {file: trees.json, name: s}]}
"""
TREES = '{"version": 1, "trees": {"s": {"leaves": ["f32[3]"], "tree": "*"}}}'
CODE = "def f(x):\n    return x * 2\n"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a project, and its `_aot` folder beside it."""
    root = tmp_path_factory.mktemp("prebuilt")
    project = write_project(root / "project", TEXT, m=CODE)
    (project / "trees.json").write_text(TREES)
    build(project, root / "_aot")
    return root


class Place:
    """A copy of all that, which may be changed."""

    def __init__(self, root: Path) -> None:
        self.project, self.folder = root / "project", root / "_aot"
        self.out, self.said = root / "out" / "_aot", list[str]()
        self.out.parent.mkdir()
        plan = PlanInputs(self.project, self.project / MANIFEST, (), front_digests(os.environ))
        self.inputs = WheelInputs(plan, ())

    def take(self, *, keep_going: bool = False) -> Finished:
        stated = wheel_needs(self.inputs.plan, os.environ, self.said.append) or ()
        return take_prebuilt(
            *(self.inputs, self.folder, self.out, stated, self.said.append), keep_going=keep_going
        )

    def refused(self, kind: type[AotbuildError] = PlanError) -> str:
        with pytest.raises(kind) as caught:
            self.take()
        assert not self.out.exists()
        return str(caught.value)


@pytest.fixture
def place(built: Path, tmp_path: Path) -> Place:
    shutil.copytree(built, tmp_path / "all")
    return Place(tmp_path / "all")


def make_package(folder: Path) -> None:
    """Make a package, which Python imports rather than a module of its name."""
    folder.mkdir()
    (folder / "__init__.py").write_text("def f(x): return x\n")


@pytest.mark.process
class TestTaken:
    def test_it_is_what_was_built(self, place: Place) -> None:
        found = place.take()
        assert tree_of(place.out) == tree_of(place.folder)
        assert stages_path(place.out).read_bytes() == stages_path(place.folder).read_bytes()
        assert (found.package, found.missing) == ("proj", "")
        assert found.tag.startswith("py3-none-")
        assert found.tag != "py3-none-any"
        assert place.said == [f"{found.made}, taken from {place.folder}"]
        assert found.made.startswith("6 executables, ")

    def test_nothing_else_in_the_folder_comes_along(self, place: Place) -> None:
        (place.folder / "blobs" / "more").touch()
        (place.folder / "letter.txt").touch()
        place.take()
        assert len(tree_of(place.out)) == len(tree_of(place.folder)) - 2


@pytest.mark.process
class TestRefused:
    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            (
                lambda place: (place.project / "proj" / "m.py").write_text("def f(x): return x\n"),
                "proj/m.py: changed since it was compiled",
            ),
            (
                lambda place: (place.project / MANIFEST).write_text(
                    TEXT.replace("[cpu, portable]", "[portable]")
                ),
                "aot.yaml: changed since it was compiled",
            ),
            (
                lambda place: (place.project / "trees.json").write_text(
                    TREES.replace("[3]", "[5]")
                ),
                "the manifest, or a file that it names, says something else",
            ),
            (
                lambda place: make_package(place.project / "proj" / "m"),
                "proj/m.py: proj/m/__init__.py is imported in its place since it was compiled",
            ),
            (lambda place: shutil.rmtree(place.folder), "nothing is built"),
            (
                lambda place: (place.folder / "index").write_bytes(b"no index"),
                "/index: ",
            ),
            (
                lambda place: (shutil.rmtree(place.folder), place.folder.write_bytes(b"a wheel")),
                "nothing is built",
            ),
            (
                lambda place: (
                    (place.folder / "index").unlink(),
                    os.mkfifo(place.folder / "index"),
                ),
                "/index: ",
            ),
        ],
        ids=["source", "manifest", "named file", "hidden", "missing", "index", "file", "pipe"],
    )
    def test_a_build_would_write_another(
        self, place: Place, change: Callable[[Place], object], reason: str
    ) -> None:
        change(place)
        text = place.refused()
        head = f"AOTBUILD_PREBUILT: {place.folder} is not what a build would write\n  "
        assert text.startswith(head)
        assert reason in text
        assert text.endswith("\nBuild it again, or unset AOTBUILD_PREBUILT.")

    def test_a_blob_is_damaged(self, place: Place) -> None:
        blob = next((place.folder / "blobs").iterdir())
        blob.write_bytes(b"?" * blob.stat().st_size)
        assert blob.name in place.refused(DamagedBlob)

    def test_the_stages_are_gone(self, place: Place) -> None:
        stages_path(place.folder).unlink()
        assert str(stages_path(place.folder)) in place.refused(StagesNotFound)

    def test_a_shard_is_asked_for_as_well(self, place: Place) -> None:
        place.inputs = replace(place.inputs, shard=Shard(1, 2))
        expected = "AOTBUILD_PREBUILT and AOTBUILD_SHARD exclude each other: unset one of them"
        assert place.refused() == expected


def test_a_relative_folder() -> None:
    assert chosen_folder({}, PREBUILT) is None
    assert chosen_folder({PREBUILT: "/a/_aot"}, PREBUILT) == Path("/a/_aot")
    with pytest.raises(PlanError) as caught:
        chosen_folder({PREBUILT: "a/_aot"}, PREBUILT)
    assert str(caught.value) == (
        "the environment variable AOTBUILD_PREBUILT: expected an absolute path, found 'a/_aot'; "
        "builds run in folders of their own"
    )
