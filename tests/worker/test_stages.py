"""`keep:`: the stages of a compilation as texts, in the package or in a file beside it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from zipfile import ZipFile

import pytest
from support.cli import invoke
from support.projects import MANIFEST, build, in_each, write_project

from aotbuild.build.pack import Package
from aotbuild.errors import BuildError
from aotbuild.format.canonical import sha256_hex
from aotbuild.format.layout import KINDS, STAGES
from aotbuild.format.record import Record
from aotbuild.runtime.source import DirectorySource, open_index
from aotbuild.store.entry import read_entry, write_entry

pytestmark = pytest.mark.process

SOURCE = """
import jax
import numpy as np

WEIGHTS = np.random.default_rng(0).normal(size=(512, 512)).astype(np.float32)

def double(x):
    return x * 2

double.__name__ = __file__
twice = jax.custom_jvp(double)
twice.defjvp(lambda primals, tangents: (twice(primals[0]), tangents[0] * 2))

def policy(*names, **params):
    return False

named = jax.checkpoint(lambda x: x + 1, policy=policy)

def f(x):
    return named(twice(x)) @ WEIGHTS
"""
FUNCTIONS = """
functions:
  f: {call: "proj.m:f", args: [x: "f32[b,512]"], dims: {b: [1, 2]}}
"""
EDITABLE = "[tool.hatch.build]\ndev-mode-dirs = ['.']\n"


def manifest(keep: str, functions: str = FUNCTIONS) -> str:
    kept = f"keep: {keep}\n" if keep else ""
    head = "version: 1\npackage: proj\ntargets: [cpu, portable]\n"
    # Neither of the two is looked at here, and both take time.
    return in_each(f"{head}{kept}{functions}", "verify: {golden: never}, purity: skip")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path / "project", manifest(f"[{', '.join(STAGES)}]"), m=SOURCE)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Package:
    """A project that was built into its package, with all stages."""
    root = tmp_path_factory.mktemp("built") / "project"
    return build(write_project(root, manifest(f"[{', '.join(STAGES)}]"), m=SOURCE))


@pytest.fixture
def built_before(built: Package, tmp_path: Path) -> Path:
    """A copy of that project and of what was built."""
    return Path(shutil.copytree(built.folder.parent.parent, tmp_path / "built"))


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AOTBUILD_STORE", str(tmp_path / "store"))
    return tmp_path / "store"


def entries(store: Path) -> list[Path]:
    return sorted(path for path in store.rglob("*") if path.is_file())


def rewrite(project: Path, keep: str) -> Package:
    (project / MANIFEST).write_text(manifest(keep), encoding="utf-8")
    return build(project)


def header_of(package: Package) -> dict[str, object]:
    return open_index(DirectorySource(package.folder)).header


def texts_of(package: Package, record: Record) -> dict[str, str]:
    assert package.stages is not None
    with ZipFile(package.stages) as archive:
        return {name: archive.read(blob.path).decode() for name, blob in record.stages}


class TestTexts:
    def test_what_is_kept_of_each_form(self, built: Package) -> None:
        package = built
        assert package.stages == package.folder.with_name("_aot.stages.zip")
        assert header_of(package)["stages"] == "beside"
        for record in package.records:
            names = STAGES[:2] if record.target.is_portable else STAGES
            assert [name for name, _ in record.stages] == list(names)
            assert [blob.kind for _, blob in record.stages] == [KINDS[name] for name in names]
        with ZipFile(package.stages) as archive:
            wanted = {b.path for record in package.records for _, b in record.stages}
            assert archive.namelist() == sorted(wanted)
            for name in archive.namelist():
                assert sha256_hex(archive.read(name)) == Path(name).stem
        kinds = {path.suffix for path in (package.folder / "blobs").iterdir()}
        assert kinds == {".pjrt", ".stablehlo"}

    def test_the_texts(self, built: Package) -> None:
        package = built
        native, portable = package.records[:2]
        texts, others = texts_of(package, native), texts_of(package, portable)
        assert texts["jaxpr"].startswith("{ lambda a:f32[512,512]; b:f32[1,512]. let")
        assert "name=m.py" in texts["jaxpr"], "the path of a source file is cut to its name"
        assert re.search(r"policy=<function .*policy at 0x(…|X+)>", texts["jaxpr"])
        assert others["jaxpr"] == texts["jaxpr"]
        assert "stablehlo.dot_general" in texts["stablehlo"]
        assert "stablehlo.dot_general" in others["stablehlo"]
        assert texts["hlo"].startswith("HloModule jit_f")
        assert json.loads(texts["cost"])["flops"] == native.analysis["flops"]
        memory = json.loads(texts["memory"])
        assert memory["temp_size_in_bytes"] == native.analysis["temp_bytes"]

    def test_constants_are_named_and_not_written_out(self, built: Package) -> None:
        for record in built.records:
            texts = texts_of(built, record)
            assert "dense_resource<__elided__>" in texts["stablehlo"]
            assert max(map(len, texts.values())) < 20_000

    def test_hoisted_constants(self, project: Path) -> None:
        functions = FUNCTIONS.replace("dims:", "constants: hoist, dims:")
        text = manifest("[jaxpr, stablehlo]", functions=functions).replace(", portable", "")
        (project / MANIFEST).write_text(text, encoding="utf-8")
        package = build(project)
        texts = texts_of(package, package.records[0])
        assert "[...]:f32[512,512]" in texts["jaxpr"]
        assert len(texts["stablehlo"]) < 20_000

    def test_two_builds_keep_the_same_bytes(self, built: Package, tmp_path: Path) -> None:
        again = build(built.folder.parent.parent, tmp_path / "_aot")
        assert built.stages
        assert again.stages
        assert built.stages.read_bytes() == again.stages.read_bytes()

    def test_paths_of_the_build_machine_are_refused(self, project: Path) -> None:
        source = SOURCE.replace("= __file__", "= __file__.replace('m.py', '')")
        (project / "proj" / "m.py").write_text(source)
        with pytest.raises(BuildError, match=r"the jaxpr \(see keep:\) would contain '/"):
            build(project)
        rewrite(project, "[stablehlo, hlo]")


class TestWhere:
    def test_in_the_wheel(self, project: Path) -> None:
        package = rewrite(project, "{stages: [jaxpr, cost], where: wheel}")
        assert package.stages is None
        assert not package.folder.with_name("_aot.stages.zip").exists()
        assert header_of(package)["stages"] == "wheel"
        kinds = {path.suffix for path in (package.folder / "blobs").iterdir()}
        assert kinds == {".pjrt", ".stablehlo", ".jaxpr", ".json"}

    def test_a_file_of_an_earlier_build_goes(self, built_before: Path) -> None:
        assert (built_before / "proj" / "_aot.stages.zip").exists()
        package = rewrite(built_before, "")
        assert not package.folder.with_name("_aot.stages.zip").exists()
        assert "stages" not in header_of(package)

    def test_a_build_that_fails_leaves_both(self, built_before: Path) -> None:
        (built_before / "proj" / "m.py").write_text("f = 1\n")
        with pytest.raises(BuildError):
            build(built_before)
        assert (built_before / "proj" / "_aot.stages.zip").exists()
        assert (built_before / "proj" / "_aot" / "index").exists()

    def test_the_command_says_where(self, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(project)
        result = invoke("build", "--out", "out/_aot")
        assert result.exit_code == 0, result.output
        assert "kept stages are in out/_aot.stages.zip\n" in result.stdout
        result = invoke("build", "--out", "out/_aot", "--json")
        assert json.loads(result.stdout)["stages"] == "out/_aot.stages.zip"


class TestStore:
    def test_they_come_out_of_the_store(self, store: Path, project: Path) -> None:
        first = build(project)
        before = texts_of(first, first.records[0])
        assert len(entries(store)) == 4
        for entry in entries(store):
            mark(entry)
        second = build(project)
        after = texts_of(second, second.records[0])
        assert json.loads(after["cost"])["flops"] == 12345.0
        assert {**after, "cost": ""} == {**before, "cost": ""}
        assert second.records[0].blob == first.records[0].blob

    def test_nothing_more_is_stored_than_is_asked_for(self, store: Path, project: Path) -> None:
        """And an executable without the stages that are asked for is compiled again."""
        rewrite(project, "")
        rewrite(project, "[jaxpr, stablehlo]")
        assert len(entries(store)) == 2
        package = rewrite(project, "[hlo]")
        assert len(entries(store)) == 4
        native = package.records[0]
        assert texts_of(package, native)["hlo"].startswith("HloModule")
        stored = [read_entry(place.read_bytes(), place.name) for place in entries(store)]
        executables = {sha256_hex(each.data) for each in stored if "analysis" in each.facts}
        told = {each.facts["executable"] for each in stored if "executable" in each.facts}
        assert executables == told
        assert native.blob.sha256 in executables
        assert rewrite(project, "[cost]").records[0].blob == native.blob


def mark(place: Path) -> None:
    """Change the cost in an entry that has one, under a digest that fits."""
    entry = read_entry(place.read_bytes(), place.name)
    if "cost" in entry.facts:
        entry.facts["cost"]["flops"] = 12345.0
        place.write_bytes(write_entry(place.name, entry))
