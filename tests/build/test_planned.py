"""What a wheel requires stays known until something that decides it changes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from support.projects import write_project

import aotbuild.manifest
from aotbuild.build import planned
from aotbuild.build.planned import PlanInputs, front_digests, wheel_needs
from aotbuild.errors import ManifestError
from aotbuild.format.tree_file import DescribedTree
from aotbuild.manifest import Manifest, load_manifest
from aotbuild.record.trees_file import TREES_FILE, add_trees
from aotbuild.store.contents import survey
from aotbuild.store.entry import Entry
from aotbuild.store.local import Store
from aotbuild.toolchains import installed

MANIFEST = """
version: 1
package: proj
functions:
  f: {call: "proj.model:f", args: [x: "f32[4]"]}
"""


class Project:
    """A project whose requirements are asked for; `reads` counts how often its manifest is read."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.root = write_project(root / "project", MANIFEST)
        self.variables = {"AOTBUILD_STORE": str(root / "store")}
        self.also: Callable[[], object] = lambda: None
        self.reads = 0
        patch.setattr(aotbuild.manifest, "load_manifest", self._load)

    def _load(self, path: Path) -> Manifest:
        self.reads += 1
        self.also()
        return load_manifest(path)

    def needs(self, *project: str) -> tuple[str, ...] | None:
        digests = front_digests(self.variables)
        inputs = PlanInputs(self.root, self.root / "aot.yaml", project, digests)
        return wheel_needs(inputs, self.variables, lambda _: None)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    # Files of a test are younger than any tick.
    monkeypatch.setattr(planned, "TICK", 0)
    return Project(tmp_path, monkeypatch)


def test_the_second_time_nothing_is_read(project: Project) -> None:
    first = project.needs()
    assert first is not None
    assert any(text.startswith("jaxlib==") for text in first)
    assert project.needs() == first
    assert project.reads == 1


def test_without_a_store_it_is_read_each_time(project: Project) -> None:
    project.variables["AOTBUILD_STORE"] = "off"
    assert project.needs() == project.needs()
    assert project.reads == 2


def test_an_edit_of_the_manifest(project: Project) -> None:
    project.needs()
    (project.root / "aot.yaml").write_text(f"runtime: jaxlib{MANIFEST}")
    needs = project.needs()
    assert needs is not None
    assert not any(text.startswith("jax==") for text in needs)
    (project.root / "aot.yaml").write_text("version: 2\n")
    with pytest.raises(ManifestError):
        project.needs()


def test_what_else_decides(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change_lock() -> None:
        (project.root / "pylock.aot-jax1.toml").write_text("")

    def change_distributions() -> None:
        (tmp_path / "more" / "other-1.0.dist-info").mkdir(parents=True)
        monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "more")])

    def change_code() -> None:
        monkeypatch.setattr(installed, "own_code", lambda _: "of another version")

    project.needs()
    for number, change in enumerate((change_lock, change_distributions, change_code), start=2):
        change()
        project.needs()
        project.needs()
        assert project.reads == number, change.__name__
    project.needs("numpy")
    assert project.reads == 5


def test_a_file_that_was_read_with_the_manifest(project: Project) -> None:
    preset = project.root / "gpu.yaml"
    preset.write_text("1")
    project.also = preset.read_text
    project.needs()
    project.needs()
    assert project.reads == 1
    preset.write_text("2")
    project.needs()
    assert project.reads == 2
    preset.unlink()
    project.also = lambda: None
    project.needs()
    assert project.reads == 3


def test_the_file_of_a_tree_that_the_manifest_names(project: Project) -> None:
    tree = DescribedTree("*", ("f32[4]",))
    add_trees(project.root / TREES_FILE, {"x": tree})
    spec = f"{{file: {TREES_FILE}, name: x}}"
    text = MANIFEST.replace('"f32[4]"', spec)
    (project.root / "aot.yaml").write_text(text, encoding="utf-8")
    for number, name in enumerate(("x", "y"), 1):
        add_trees(project.root / TREES_FILE, {name: tree})
        project.needs()
        project.needs()
        assert project.reads == number


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="needs /dev/shm")
def test_a_project_in_shared_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not all that stands below /dev belongs to the operating system."""
    monkeypatch.setattr(planned, "TICK", 0)
    with TemporaryDirectory(dir="/dev/shm") as folder:
        project = Project(Path(folder), monkeypatch)
        preset = project.root / "gpu.yaml"
        preset.write_text("1")
        project.also = preset.read_text
        project.needs()
        preset.write_text("2")
        project.needs()
        assert project.reads == 2


def test_a_file_elsewhere_may_change_unseen(project: Project, tmp_path: Path) -> None:
    elsewhere = tmp_path / "gpu.yaml"
    elsewhere.touch()
    project.also = elsewhere.read_text
    project.needs()
    project.needs()
    assert project.reads == 2


def test_a_file_that_is_written_meanwhile(project: Project) -> None:
    project.also = lambda: (project.root / "aot.yaml").write_text(MANIFEST)
    project.needs()
    project.needs()
    assert project.reads == 2


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"files": [], "state": ""},
        {"files": {}, "requirements": [], "state": ""},
        {"files": [], "requirements": []},
        {"files": [], "requirements": "jax", "state": ""},
        {"files": [], "requirements": ["no requirement!"], "state": ""},
        {"files": ["../other"], "requirements": [], "state": ""},
        {"files": ["proj/../../other"], "requirements": [], "state": ""},
        {"files": ["/dev/zero"], "requirements": [], "state": ""},
        {"files": ["aot\0yaml"], "requirements": [], "state": ""},
        {"files": ["aot.yaml"], "requirements": [], "state": 1},
    ],
    ids=str,
)
def test_an_entry_with_other_facts(project: Project, facts: dict[str, object]) -> None:
    needs = project.needs()
    store = Store(Path(project.variables["AOTBUILD_STORE"]))
    (item,) = survey(store.root or Path()).entries
    store.put(item.key, Entry(facts, b""))
    assert project.needs() == project.needs() == needs
    assert project.reads == 2, "it was made again, and replaced"
