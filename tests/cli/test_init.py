"""`aotbuild init`: both files from a source that nobody imports."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path
from zipfile import ZipFile

import pytest
from support.cli import run

from aotbuild.manifest import load_manifest

SOURCE = '''\
raise SystemExit("imported")
from functools import partial
import json

import equinox as eqx
import jax
import nothing_that_is_installed


@partial(jax.jit, static_argnames="act")
def score(weights, x, act="tanh"):
    """Return the scores."""


@jax.jit
def _loss(params, x): ...


def make():
    return jax.jit(lambda x: x)
'''
MANIFEST = """\
# yaml-language-server: $schema=aotbuild.schema.json
# Replace each TODO by hand; `aotbuild plan` says where they are. Or replace these
# entries by those that `aotbuild record` prints for what your program calls.
version: 1
package: mypkg
functions:
  score:
    call: mypkg.model:score
    args:
      - weights: TODO
      - x: TODO
    static: {act: TODO}
  loss:
    call: mypkg.model:_loss
    args:
      - params: TODO
      - x: TODO
"""
FILES = ["aot.yaml", "aotbuild.schema.json", "pyproject.toml"]


@pytest.fixture(params=[""])
def project(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A project without a file but its package, which cannot be imported."""
    package = tmp_path / request.param / "mypkg"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "model.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("project", ["", "src"], indirect=True)
def test_both_files_are_written(project: Path) -> None:
    document = json.loads(run("init", "mypkg.model", "--json").stdout)
    assert (project / "aot.yaml").read_text() == MANIFEST
    assert (project / FILES[1]).read_text() == run("schema").stdout
    table = tomllib.loads((project / "pyproject.toml").read_text())
    jax, jaxlib, ours, equinox = table["project"]["dependencies"]
    assert (table["project"]["name"], jax) == ("mypkg", f"jax=={version('jax')}")
    assert (jaxlib, ours) == (f"jaxlib=={version('jaxlib')}", f"aotbuild~={version('aotbuild')}")
    assert equinox == "equinox"
    hook = table["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["aotbuild"]
    assert hook == {"manifest": "aot.yaml"}
    (sources,) = (k["file"] for k in table["tool"]["uv"]["cache-keys"] if "*" in k["file"])
    assert [*project.glob(sources)]
    assert [(f["name"], f["todo"]) for f in document["functions"]] == [("score", 3), ("loss", 2)]
    assert document["written"] == FILES


def test_what_is_left_is_refused_and_then_planned(project: Path) -> None:
    printed = run("init", "mypkg.model:score").stdout
    assert f"wrote {', '.join(FILES)}. Next:\n  1. replace 3 TODOs" in printed
    refused = run("plan", code=3).stderr
    assert "aot.yaml:10:18: functions.score.args.0.weights: TODO is left here" in refused
    manifest = project / "aot.yaml"
    text = manifest.read_text().replace("s: TODO", "s: f32[4]").replace("x: TODO", "x: f32[4]")
    manifest.write_text(text.replace("act: TODO", "act: [a, b]"))
    assert [*load_manifest(manifest).functions] == ["score"]


@pytest.mark.process
def test_what_is_left_can_be_installed(project: Path, tmp_path: Path) -> None:
    """`uv run aotbuild plan` installs the project before it says where the TODOs are."""
    run("init", "mypkg.model:score")
    code = "import sys; from hatch_aotbuild import backend as b\n"
    code += "assert b.get_requires_for_build_editable() in ([], ['editables~=0.3'])\n"
    command = [sys.executable, "-c", f"{code}b.build_editable(sys.argv[1])", str(tmp_path)]
    done = subprocess.run(command, cwd=project, check=True, capture_output=True, text=True)
    assert "aot.yaml:10:18: functions.score.args.0.weights: TODO is left here" in done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with ZipFile(wheel) as archive:
        assert not [name for name in archive.namelist() if "_aot" in name]
        (metadata,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        # twine 6.2 refuses 2.5, which hatchling 1.33 writes.
        assert archive.read(metadata).startswith(b"Metadata-Version: 2.4\n")


def test_files_that_exist_stay(project: Path) -> None:
    run("init", "mypkg.model:score")
    before = {name: (project / name).read_text() for name in FILES}
    printed = run("init", "mypkg.model").stdout
    assert {name: (project / name).read_text() for name in FILES} == before
    assert "score: in aot.yaml already\n" in printed
    assert "Add this to its functions:\n\n  loss:\n    call: mypkg.model:_loss\n" in printed
    assert "nothing was written" in printed


def test_the_manifest_is_the_one_of_the_hook(project: Path) -> None:
    (project / "conf").mkdir()
    table = '[tool.hatch.build.targets.wheel.hooks.aotbuild]\nmanifest = "conf/net.yaml"\n'
    (project / "pyproject.toml").write_text(table)
    printed = run("init", "mypkg.model:score").stdout
    names = {path.name for path in (project / "conf").iterdir()}
    assert names == {"net.yaml", "aotbuild.schema.json"}
    assert "2. aotbuild plan conf/net.yaml" in printed
    assert "those that `aotbuild record --out conf/net.yaml -- PROGRAM` prints\n" in printed
    assert "pyproject.toml needs" not in printed


def test_the_versions_of_a_lock_are_pinned(project: Path) -> None:
    packages = (f'[[package]]\nname = "{n}"\nversion = "0.11.2"\n' for n in ("jax", "jaxlib"))
    (project / "uv.lock").write_text("version = 1\n" + "".join(packages))
    run("init", "mypkg.model")
    assert '"jax==0.11.2",' in (project / "pyproject.toml").read_text()


@pytest.mark.parametrize("file", ["setup.py", "pyproject.toml"])
def test_a_project_without_the_hook(project: Path, file: str) -> None:
    text = '[build-system]\nbuild-backend = "uv_build"\n' if file == "pyproject.toml" else ""
    (project / file).write_text(text)
    printed = run("init", "mypkg.model").stdout
    assert 'pyproject.toml needs:\n\n[build-system]\nrequires = ["hatchling' in printed
    assert (project / "aot.yaml").exists()
    assert (project / file).read_text() == text


def test_a_package_with_all_that_is_in_it(project: Path) -> None:
    (folder,) = project.rglob("mypkg")
    (folder / "deep").mkdir()
    (folder / "deep" / "__init__.py").touch()
    (folder / "deep" / "test_it.py").write_text("import jax\nf = jax.jit(lambda x: x)\n")
    (folder / "deep" / "other.py").write_text("import jax\nscore = jax.jit(lambda x: x)\n")
    document = json.loads(run("init", "mypkg", "--json").stdout)
    assert [(f["name"], f["call"]) for f in document["functions"]] == [
        ("score", "mypkg.deep.other:score"),
        ("model_score", "mypkg.model:score"),
        ("loss", "mypkg.model:_loss"),
    ]


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("mypkg.modle", "no module 'mypkg.modle' (did you mean 'model'?)\n"),
        ("mypkg/model.py", "'mypkg/model.py' is not the name of a module\n"),
        ("mypkg.model:scor", "it defines no function 'scor' (did you mean 'score'?)\n"),
        ("mypkg.plain", "Name a function yourself: aotbuild init mypkg.plain:FUNCTION\n"),
        ("mypkg.wrong", "wrong.py:2: not Python of this version: "),
        ("alone", "no package has the module 'alone'"),
    ],
)
def test_what_is_refused(project: Path, module: str, said: str) -> None:
    (folder,) = project.rglob("mypkg")
    (folder / "plain.py").write_text("def f(x): ...\ndef g(x): ...\ndef _h(x): ...\n")
    (folder / "wrong.py").write_text("x = 1\ndef f(:\n")
    (project / "alone.py").write_text("import jax\nf = jax.jit(lambda x: x)\n")
    refused = run("init", module, code=3).stderr
    assert said in refused
    assert not (project / "aot.yaml").exists()
