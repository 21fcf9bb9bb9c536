"""Shards that three machines build, each in a folder of its own: merged, they equal one build."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from subprocess import CalledProcessError

import numpy as np
import pytest
from attacks.wheels import record_of, write_wheel
from support.cli import run
from support.installs import build_wheel, tree_of
from support.processes import clean_environment
from support.projects import write_project
from support.shared import made_once, run_folder
from support.wheel_files import contents

import aotbuild
from aotbuild.errors import SignatureMismatch, UnknownFunction
from aotbuild.format.layout import stages_path

pytestmark = [pytest.mark.wheel, pytest.mark.any_jax]

COUNT = 3
RECORD = "proj-1.0.dist-info/RECORD"
# Golden outputs, hoisted constants that signatures share, calls that add units, padded dims.
SOURCE = """
import jax.numpy as jnp

W = jnp.arange(12.0).reshape(3, 4)

def double(x):
    return x * 2

def score(x, y):
    return jnp.tanh(x @ y)

def hoisted(x):
    return x @ W

def step(s, x):
    return s + x.sum(), s

def padded(x):
    return jnp.sin(x)
"""
MANIFEST = """
version: 1
package: proj
targets: [cpu, portable]
keep: {stages: [hlo]}
functions:
  double: {call: "proj.m:double", args: [x: "f32[n]"], dims: {n: [1, 2, 3]}}
  score: {call: "proj.m:score", args: [x: "f32[n,3]", y: "f32[3,2]"], dims: {n: [1, 2]}}
  hoisted: {call: "proj.m:hoisted", args: [x: "f32[n,3]"], dims: {n: [1, 2]}, constants: hoist}
  step: {call: "proj.m:step", args: [s: "i32[]", x: "f32[n]"], dims: {n: [1, 2]}, feedback: [s]}
  padded: {call: "proj.m:padded", args: [x: "f32[n]"], dims: {n: [4, 8]}, pad: {n: 0.0}}
"""
# A license, and files from elsewhere: hatchling puts them at the beginning and the end of a wheel.
PYPROJECT = """
[build-system]
requires = ["hatchling", "aotbuild[build]"]
build-backend = "hatchling.build"
[project]
name = "proj"
version = "1.0"
dynamic = ["dependencies"]
license-files = ["LICENSE"]
[tool.hatch.metadata.hooks.aotbuild]
[tool.hatch.build.targets.wheel.hooks.aotbuild]
[tool.hatch.build.targets.wheel]
packages = ["proj"]
[tool.hatch.build.targets.wheel.force-include]
"extra.txt" = "zzz/extra.txt"
[tool.hatch.build.targets.wheel.shared-data]
"extra.txt" = "share/extra.txt"
"""


def project(root: Path) -> Path:
    write_project(root, MANIFEST, m=SOURCE)
    (root / "pyproject.toml").write_text(PYPROJECT)
    (root / "LICENSE").write_text("None.\n")
    (root / "extra.txt").write_text("more\n")
    return root


@dataclass(frozen=True)
class Built:
    """A wheel and the `_aot` folder in it, with kept stages beside both, of each shard and whole.

    The shards' folders are those of wheels, too: the command line and the hook make the same.
    """

    root: Path

    @property
    def names(self) -> list[str]:
        return ["whole", *(f"{number}of{COUNT}" for number in range(1, COUNT + 1))]

    def wheel(self, name: str) -> Path:
        (found,) = (self.root / name / "dist").glob("*.whl")
        return found

    def folder(self, name: str) -> Path:
        return self.root / name / "unpacked" / "proj" / "_aot"

    @property
    def shards(self) -> list[str]:
        return self.names[1:]

    def make(self) -> None:
        # One number of jobs for all of them would prove less.
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(self._make, self.names))

    def _make(self, name: str) -> None:
        root = project(self.root / name / "project")
        number = name.partition("of")[0]
        shard = {} if name == "whole" else {"AOTBUILD_SHARD": f"{number}/{COUNT}"}
        out = self.root / name / "dist"
        wheel = build_wheel(root, out, AOTBUILD_STAGES=str(out), **shard)
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(self.folder(name).parents[1])
        shutil.copy(stages_path(wheel), stages_path(self.folder(name)))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return Built(made_once(run_folder(tmp_path_factory) / "shards", lambda to: Built(to).make()))


def test_wheels(built: Built, tmp_path: Path) -> None:
    run("merge", *map(built.wheel, reversed(built.shards)), "--out", tmp_path)
    merged = tmp_path / built.wheel("whole").name
    assert merged.read_bytes() == built.wheel("whole").read_bytes()
    assert stages_path(merged).read_bytes() == stages_path(built.wheel("whole")).read_bytes()


def test_folders(built: Built, tmp_path: Path) -> None:
    run("merge", *map(built.folder, built.shards), "--out", tmp_path / "_aot")
    assert tree_of(tmp_path / "_aot") == tree_of(built.folder("whole"))
    stages = stages_path(tmp_path / "_aot")
    assert stages.read_bytes() == stages_path(built.folder("whole")).read_bytes()


def test_a_wheel_of_the_joined_folder(built: Built, tmp_path: Path) -> None:
    joined = tmp_path / "_aot"
    run("merge", *map(built.folder, built.shards), "--out", joined)
    root, out = project(tmp_path / "project"), tmp_path / "dist"
    variables = {"AOTBUILD_PREBUILT": str(joined), "AOTBUILD_STAGES": str(out)}
    wheel = build_wheel(root, out, **variables)
    assert wheel.name == built.wheel("whole").name
    assert wheel.read_bytes() == built.wheel("whole").read_bytes()
    assert stages_path(wheel).read_bytes() == stages_path(built.wheel("whole")).read_bytes()
    # Of a shard, there is no wheel.
    variables["AOTBUILD_PREBUILT"] = str(built.folder("1of3"))
    with pytest.raises(CalledProcessError) as caught:
        build_wheel(root, tmp_path / "none", **variables)
    assert f"{built.folder('1of3')}: this is shard 1/3 of a build" in caught.value.output


def test_machines_that_share_a_store(built: Built, tmp_path: Path) -> None:
    """Each has a store of its own in front; the one behind has times, which balance the shares."""
    shared = tmp_path / "shared"
    whole = compile_on("whole", tmp_path, shared)
    assert tree_of(whole) == tree_of(built.folder("whole"))
    shards = [compile_on(f"{n}/{COUNT}", tmp_path, shared) for n in range(1, COUNT + 1)]
    run("merge", *shards, "--out", tmp_path / "_aot")
    assert tree_of(tmp_path / "_aot") == tree_of(built.folder("whole"))


def compile_on(shard: str, root: Path, shared: Path) -> Path:
    """Build a shard, or the whole, on a machine that has nothing; return its `_aot` folder."""
    machine = root / shard.replace("/", "of")
    options = [] if shard == "whole" else ["--shard", shard]
    command = [sys.executable, "-m", "aotbuild", "build", *options, "--out", "out/_aot"]
    store = f"{machine / 'store'},{shared}"
    environment = clean_environment(AOTBUILD_JOBS="1", AOTBUILD_STORE=store)
    project(machine)
    done = subprocess.run(command, cwd=machine, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return machine / "out" / "_aot"


class TestRefused:
    """Nothing is written."""

    @pytest.fixture(autouse=True)
    def _out(self, tmp_path: Path) -> None:
        self.out = tmp_path / "out"

    def merge(self, *wheels: Path, options: tuple[str, ...] = (), code: int = 7) -> str:
        ended = run("merge", *wheels, *options, "--out", self.out, code=code)
        assert not self.out.exists()
        return ended.stderr

    def test_one_is_missing(self, built: Built) -> None:
        text = self.merge(*map(built.wheel, built.shards[:2]))
        assert "these shards are not one package\n  shard 3/3 is missing (it has " in text

    def test_a_whole_wheel(self, built: Built) -> None:
        text = self.merge(*map(built.wheel, built.names))
        assert f"{built.wheel('whole')}: not a shard\n  it is a whole package\n" in text

    def test_a_fallback(self, built: Built) -> None:
        wheels = map(built.wheel, built.shards)
        text = self.merge(*wheels, options=("--fallback", "jit"))
        assert "--fallback is for wheels of several manifests, and shards have one" in text

    def test_other_code_around_it(self, built: Built, tmp_path: Path) -> None:
        wheel = built.wheel("1of3")
        files = {**contents(wheel), "proj/more.py": b"x = 1\n"}
        del files[RECORD]
        files[RECORD] = record_of(files).replace(b"demo-1.0", b"proj-1.0")
        (tmp_path / "other").mkdir()
        other = write_wheel(tmp_path / "other" / wheel.name, files.items())
        text = self.merge(other, *map(built.wheel, built.shards[1:]))
        assert "they cannot be one wheel" in text
        assert "proj/more.py is missing" in text


def test_nothing_takes_a_shard_for_the_package(built: Built, tmp_path: Path) -> None:
    wheel = built.wheel("1of3")
    note = "this is shard 1/3 of a build, not the whole package: `aotbuild merge` joins all"
    assert note in run("inspect", wheel).stdout
    assert json.loads(run("inspect", wheel, "--json").stdout)["shard"]["number"] == 1
    assert note in run("doctor", wheel).output
    assert note in run("split", wheel, "--out", tmp_path, code=7).stderr
    assert run("verify", wheel).exit_code == 0
    library = aotbuild.load(wheel)
    with pytest.raises(SignatureMismatch) as mismatch:
        library.double(np.zeros(7, "float32"))
    assert note in str(mismatch.value)
    with pytest.raises(UnknownFunction) as unknown:
        library.nothing()
    assert note in str(unknown.value)
