"""A finished build is taken from the store as long as all that decides it is as it was."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from support.installs import tree_of
from support.processes import ROOT
from support.projects import MANIFEST, write_project

import aotbuild.manifest
from aotbuild.build import keeping, planned
from aotbuild.build.finished import Finished, WheelInputs, recall_build
from aotbuild.build.planned import PlanInputs, front_digests, wheel_needs
from aotbuild.build.sources import find_sources
from aotbuild.errors import ManifestError, PlanError
from aotbuild.format.canonical import sha256_hex
from aotbuild.format.shard import Shard
from aotbuild.manifest import Manifest, load_manifest
from aotbuild.store.folder import Folder
from aotbuild.store.kinds import kind_of
from hatch_aotbuild import compiling
from hatch_aotbuild.compiling import compile_wheel

pytestmark = [pytest.mark.process, pytest.mark.any_jax]

SOURCE = """
import os
from pathlib import Path

import library
import shadowed
from proj.helper import FACTOR
try:
    import not_there
except ImportError:
    not_there = None

HERE = Path(__file__).parent
N = len(list((HERE / "parts").iterdir()))
DATA = float((HERE / "data.txt").read_text())
try:
    OTHER = float(open(HERE / "other.txt").read())
except FileNotFoundError:
    OTHER = 1.0
if (HERE / "flag").exists() or os.environ.get("PROJ_SWITCH"):
    OTHER = 5.0

def f(x):
    return x * FACTOR * DATA * N + OTHER + library.ONE + shadowed.ONE
"""
TEXT = """
version: 1
package: proj
functions:
  f: {call: "proj.model:f", args: [x: "f32[4]"]}
"""


class Place:
    """A project, its store, and folders of modules; all of it may be changed."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.root, self.patch = folder, folder / "project", patch
        self.early, self.late = folder / "early", folder / "site-packages"
        for path in (self.late, self.early):
            path.mkdir()
            patch.syspath_prepend(str(path))
        patch.setenv("AOTBUILD_DIRECT", "on")
        patch.setenv("AOTBUILD_TIMES", "on")
        patch.setenv("AOTBUILD_STORE", str(folder / "store"))
        for module in (keeping, planned):  # files of a test are younger than any tick
            patch.setattr(module, "TICK", 0)
        (self.late / "library.py").write_text("ONE = 1.0\n")
        (self.late / "shadowed.py").write_text("ONE = 1.0\n")
        write_project(self.root, TEXT, model=SOURCE, helper="FACTOR = 2.0\n")
        (self.root / "proj" / "data.txt").write_text("2")
        (self.root / "proj" / "parts").mkdir()
        (self.root / "proj" / "parts" / "one").touch()
        self.manifest = MANIFEST
        self.number = 0

    def inputs(self) -> WheelInputs:
        plan = PlanInputs(self.root, self.root / self.manifest, (), front_digests(os.environ))
        return WheelInputs(plan, (".",))

    def out(self) -> Path:
        self.number += 1
        folder = self.folder / "out" / str(self.number)
        folder.mkdir(parents=True)
        return folder / "_aot"

    def build(self, folder: Path, inputs: WheelInputs | None = None) -> Finished:
        inputs = inputs or self.inputs()
        stated = wheel_needs(inputs.plan, os.environ, print) or ()
        keep = {"keep_going": False, "live": False}
        return compile_wheel(inputs, folder, stated, print, print, **keep)

    def recall(self, folder: Path, inputs: WheelInputs | None = None) -> Finished | None:
        inputs = inputs or self.inputs()
        stated = wheel_needs(inputs.plan, os.environ, print) or ()
        return recall_build(inputs, folder, stated, os.environ)

    def is_known(self, inputs: WheelInputs | None = None) -> bool:
        return self.recall(self.out(), inputs) is not None


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    return Place(tmp_path, monkeypatch)


@contextmanager
def written(path: Path, text: str) -> Iterator[None]:
    """Write a file for the time of the block."""
    before = path.read_bytes() if path.exists() else None
    path.write_text(text)
    yield
    path.unlink() if before is None else path.write_bytes(before)


@contextmanager
def variable(name: str, value: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(name, value)
        yield


@contextmanager
def encoding(name: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("aotbuild.build.finished.encodings", lambda: (name, name))
        yield


@contextmanager
def moved(place: Place) -> Iterator[None]:
    """Let the package be imported from `src`."""
    (place.root / "src").mkdir()
    (place.root / "proj").rename(place.root / "src" / "proj")
    yield
    (place.root / "src" / "proj").rename(place.root / "proj")
    (place.root / "src").rmdir()


@contextmanager
def on_path(folder: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [*sys.path, str(folder)])
        yield


@contextmanager
def installed(place: Place, name: str) -> Iterator[None]:
    (place.late / name).mkdir()
    yield
    (place.late / name).rmdir()


Edit = Callable[[Place], "contextmanager[None]"]
# Whatever decides the folder, its bill of materials, or what is said of it.
EDITS: dict[str, Callable[[Place], object]] = {
    "the manifest": lambda p: written(p.root / MANIFEST, f"{TEXT}# a comment\n"),
    "a lock beside it": lambda p: written(p.root / "pylock.aot-jax1.toml", ""),
    "the module": lambda p: written(p.root / "proj" / "model.py", f"{SOURCE}\n"),
    "a module of the project": lambda p: written(p.root / "proj" / "helper.py", "FACTOR = 3.0\n"),
    "the package": lambda p: written(p.root / "proj" / "__init__.py", "A = 1\n"),
    "where the package is": moved,
    "a data file": lambda p: written(p.root / "proj" / "data.txt", "3"),
    "the names in a folder": lambda p: written(p.root / "proj" / "parts" / "two", ""),
    "a file that was missing": lambda p: written(p.root / "proj" / "other.txt", "3"),
    "a file that was looked for": lambda p: written(p.root / "proj" / "flag", ""),
    "a library": lambda p: written(p.late / "library.py", "ONE = 2.0\n"),
    "a module that was missing": lambda p: written(p.late / "not_there.py", ""),
    "a module in front": lambda p: written(p.early / "shadowed.py", "ONE = 1.5\n"),
    "an installed distribution": lambda p: installed(p, "other-1.0.dist-info"),
    "what Python runs at its start": lambda p: written(p.late / "other.pth", "import sys"),
    "a variable that was read": lambda _: variable("PROJ_SWITCH", "1"),
    "how text is read": lambda _: encoding("ascii"),
    "how executables are rewritten": lambda _: variable("AOTBUILD_SHRINK", "off"),
    "another executor": lambda _: variable("AOTBUILD_EXECUTOR", "slurm"),
    "what becomes of failures": lambda _: variable("AOTBUILD_ON_FAILURE", "skip"),
    "the time of the files": lambda _: variable("SOURCE_DATE_EPOCH", "315532800"),
    "direct mode": lambda _: variable("AOTBUILD_DIRECT", "off"),
    "another store": lambda p: variable("AOTBUILD_STORE", str(p.folder / "other")),
    "no store": lambda _: variable("AOTBUILD_STORE", "off"),
    "a layer to write to": lambda p: variable(
        "AOTBUILD_STORE", f"{p.folder / 'store'},{p.folder / 'behind'}"
    ),
}


def test_an_edit_of_whatever_decides_it(place: Place) -> None:
    folder = place.out()
    first = place.build(folder)
    found = place.out()
    again = place.recall(found)
    assert again is not None
    assert tree_of(found) == tree_of(folder)
    assert (again.tag, again.notes) == (first.tag, first.notes)

    for what, edit in EDITS.items():
        with edit(place):  # type: ignore[attr-defined]
            assert not place.is_known(), what
        assert place.is_known(), f"after {what}"


def test_what_decides_nothing(place: Place, tmp_path: Path) -> None:
    place.build(place.out())
    (place.root / "README.md").write_text("new")
    (place.root / "proj" / "unused.py").write_text("new")
    for path in place.root.rglob("*.py"):
        os.utime(path)
    with (
        variable("PROJ_UNREAD", "1"),
        variable("AOTBUILD_JOBS", "7"),
        variable("AOTBUILD_STORE_KEY", "not looked at"),
        on_path(tmp_path),
    ):
        assert place.is_known()
    behind = f"{place.folder / 'store'},{place.folder / 'behind'}?mode=ro"
    with variable("AOTBUILD_STORE", behind):
        assert place.is_known()
    # The same project in another folder.
    shutil.copytree(place.root, tmp_path / "copy", ignore=shutil.ignore_patterns("__pycache__"))
    place.root = tmp_path / "copy"
    assert place.is_known()


def test_other_options_of_the_wheel(place: Place) -> None:
    place.build(place.out())
    inputs = place.inputs()
    assert place.is_known(inputs)
    assert not place.is_known(replace(inputs, packages=("src",)))
    assert not place.is_known(replace(inputs, shard=Shard(1, 2)))
    assert not place.is_known(replace(inputs, plan=replace(inputs.plan, project=("numpy",))))
    assert recall_build(inputs, place.out(), ["numpy"], os.environ) is None, "nothing is required"


def test_an_entry_that_is_gone_or_damaged(place: Place) -> None:
    first = place.out()
    place.build(first)
    store = Folder(place.folder / "store")
    files = [path for path in store.root.rglob("*") if path.is_file() and len(path.name) == 64]
    for file in files:
        data = file.read_bytes()
        for broken in (None, data[: len(data) // 2], data[:-1] + bytes([data[-1] ^ 1])):
            file.unlink() if broken is None else file.write_bytes(broken)
            out = place.out()
            found = place.recall(out)
            # What a hit does not need may be gone, but what it writes is whole.
            assert found is None or tree_of(out) == tree_of(first)
            assert found or not out.exists()
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(data)
    assert files
    assert place.is_known()


def test_an_edit_during_the_build(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was edited after its job, and before the end, is not taken for what the job read."""
    edited = place.root / "proj" / "helper.py"
    build = compiling.build_package

    def build_package(*args: object, **kwargs: object) -> object:
        package = build(*args, **kwargs)  # type: ignore[arg-type]
        edited.write_text("FACTOR = 3.0\n")
        return package

    monkeypatch.setattr(compiling, "build_package", build_package)
    place.build(place.out())
    assert not place.is_known()
    edited.write_text("FACTOR = 2.0\n")
    assert not place.is_known()


@pytest.mark.parametrize(
    ("more", "source"),
    [
        ("keep: {stages: [stablehlo]}\n", None),
        ("defaults: {env: {LC_CTYPE: C.UTF-8}}\n", None),
        ("", "import subprocess\ndef f(x):\n    subprocess.run(['true'])\n    return x\n"),
    ],
    ids=["kept stages", "a locale of its own", "inputs that nobody sees"],
)
def test_builds_that_are_not_kept(place: Place, more: str, source: str | None) -> None:
    (place.root / MANIFEST).write_text(TEXT + more)
    if source:
        (place.root / "proj" / "model.py").write_text(source)
    place.build(place.out())
    assert not place.is_known()


@pytest.mark.parametrize("outside", [False, True], ids=["", "with entries of this machine alone"])
def test_pruning_goes_by_the_last_use(place: Place, outside: bool) -> None:
    if outside:  # what is read by its absolute path means nothing elsewhere
        file = place.folder / "outside.txt"
        file.write_text("1")
        model = place.root / "proj" / "model.py"
        model.write_text(f"open({str(file)!r}).read()\n{SOURCE}")
    place.build(place.out())
    store = Folder(place.folder / "store")
    files = [path for path in store.root.rglob("*") if path.is_file() and len(path.name) == 64]
    past = time.time() - 1e6
    for file in files:
        os.utime(file, (past, past))
    assert place.is_known()
    assert [kind_of(file) for file in files if file.stat().st_mtime < past + 1] == []


def test_a_package_that_is_gone(place: Place) -> None:
    place.build(place.out())
    shutil.rmtree(place.root / "proj")
    assert not place.is_known()
    with pytest.raises(PlanError):
        find_sources(place.root, "proj")


NAMED = """
version: 1
package: proj
targets: [cpu, cuda: {gpu: ./GPU/gpu.yaml, tuning: TUNED/tuned.txt}]
functions:
  f: {call: "proj.model:f", args: [x: {file: TREES/trees.json, name: x}]}
"""
TREES = '{"version": 1, "trees": {"x": {"leaves": ["f32[4]"], "tree": "*"}}}'
GPU = (ROOT / "configs" / "targets" / "h200.yaml").read_text(encoding="utf-8")
# Each file that a manifest may name, and an edit of it that keeps its size.
FILES = {
    "TREES/trees.json": (TREES, TREES.replace("[4]", "[6]")),
    "GPU/gpu.yaml": (GPU, GPU.replace("NVIDIA H200", "NVIDIA H201")),
    "TUNED/tuned.txt": (
        'version: 3 results { device: "a" hlo: "a" }',
        'version: 3 results { device: "a" hlo: "b" }',
    ),
}
Put = Callable[[Path, str], None]


def written_to(file: Path, text: str) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(text, encoding="utf-8")


def replaced(file: Path, text: str) -> None:
    """Move another file there, with the same times."""
    times = file.stat() if file.exists() else None
    new = file.with_name("new")
    written_to(new, text)
    if times:
        os.utime(new, ns=(times.st_atime_ns, times.st_mtime_ns))
    new.replace(file)


def linked(file: Path, text: str) -> None:
    """Let a link with the file's name lead to another file."""
    target = file.with_name(f"{file.name}.{sha256_hex(text.encode())}")
    if not target.exists():
        written_to(target, text)
    file.unlink(missing_ok=True)
    file.symlink_to(target.name)


def linked_twice(file: Path, text: str) -> None:
    """Let the second of two links lead to another file."""
    second = file.with_name(f"second-{file.name}")
    linked(second, text)
    if not file.exists():
        file.symlink_to(second.name)


def in_linked_folder(file: Path, text: str) -> None:
    """Let a link with the folder's name lead to another folder."""
    folder = file.parent
    target = folder.with_name(f"{folder.name}.{sha256_hex(text.encode())}")
    if not target.exists():
        written_to(target / file.name, text)
    folder.unlink(missing_ok=True)
    folder.symlink_to(target.name)


def in_moved_folder(file: Path, text: str) -> None:
    """Move another folder there."""
    new = file.parent.with_name("new")
    written_to(new / file.name, text)
    shutil.rmtree(file.parent, ignore_errors=True)
    new.rename(file.parent)


def write_named(place: Place, folder: str, put: Put) -> dict[Path, tuple[str, str]]:
    """Write the manifest into a folder of the project, and all that it names beside it."""
    place.manifest = f"{folder}/{MANIFEST}"
    files = {place.root / folder / name: texts for name, texts in FILES.items()}
    for file, (before, _) in files.items():
        put(file, before)
    (place.root / place.manifest).write_text(NAMED, encoding="utf-8")

    def load(path: Path) -> Manifest:
        manifest = load_manifest(path)  # of all targets, but no GPU can be compiled for here
        return manifest.model_copy(update={"targets": manifest.targets[:1]})

    for module in (aotbuild.manifest, compiling):
        place.patch.setattr(module, "load_manifest", load)
    return files


def check_edits(place: Place, files: dict[Path, tuple[str, str]], put: Put) -> None:
    """Check that the second wheel has what a build without a store makes, whatever was edited."""
    built = place.out()
    place.build(built)
    assert place.is_known()
    for file, (before, after) in files.items():
        put(file, after)
        # It asks for the metadata first, as pip does.
        assert not place.is_known(), file.name
        if file.name == "trees.json":
            again, plain, found = place.out(), place.out(), place.out()
            place.build(again)
            with variable("AOTBUILD_STORE", "off"):
                place.build(plain)
            assert place.recall(found) is not None
            assert tree_of(again) == tree_of(plain) == tree_of(found) != tree_of(built)
        put(file, before)
        found = place.out()
        assert place.recall(found) is not None, f"after {file.name}"
        assert tree_of(found) == tree_of(built)


@pytest.mark.parametrize(
    "put", [written_to, replaced, linked_twice, in_linked_folder, in_moved_folder]
)
def test_an_edit_of_a_file_that_the_manifest_names(place: Place, put: Put) -> None:
    check_edits(place, write_named(place, ".", put), put)


@pytest.mark.parametrize("by_link", [False, True], ids=["", "by a link"])
def test_named_files_on_the_path_of_imports(place: Place, by_link: bool) -> None:
    """Sources that are imported in place, as by PYTHONPATH or of an editable install."""
    with moved(place):
        if by_link:
            (place.folder / "link").symlink_to(place.root)
            place.root = place.folder / "link"
        with on_path(place.root / "src"), on_path(place.root):
            check_edits(place, write_named(place, "src/proj", written_to), written_to)


def test_what_a_link_leads_to(place: Place) -> None:
    """A file outside of the project is refused, also if it says the same."""
    (file, (text, _)), *_ = write_named(place, ".", linked).items()
    place.build(place.out())
    stated = wheel_needs(place.inputs().plan, os.environ, print) or ()
    assert recall_build(place.inputs(), place.out(), stated, os.environ) is not None
    (place.folder / file.name).write_text(text, encoding="utf-8")
    file.unlink()
    file.symlink_to(place.folder / file.name)
    assert recall_build(place.inputs(), place.out(), stated, os.environ) is None
    with pytest.raises(ManifestError, match="below the manifest's folder"):
        place.build(place.out())


def test_an_edit_before_the_build_that_another_run_knows(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a build read is not kept as that of a folder that took its place meanwhile."""
    (file, (_, after)), *_ = write_named(place, ".", in_moved_folder).items()
    build = compiling.build_package
    new = place.root / "later"
    written_to(new / file.name, after)
    time.sleep(0.05)  # the files are older than the build

    def build_package(*args: object, **kwargs: object) -> object:
        package = build(*args, **kwargs)  # type: ignore[arg-type]
        file.parent.rename(place.root / "before")
        new.rename(file.parent)
        wheel_needs(place.inputs().plan, os.environ, print)
        return package

    with monkeypatch.context() as patch:
        patch.setattr(compiling, "build_package", build_package)
        place.build(place.out())
    assert not place.is_known()
