"""`aotbuild init`: both files from a source that nobody imports."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from support.cli import invoke, run

from aotbuild.manifest import load_manifest

SOURCE = '''\
raise SystemExit("imported")
from functools import partial

import jax
from jaxtyping import Array, Float


@partial(jax.jit, static_argnames="act")
def score(
    weights: Float[Array, "16 4"],
    x: Float[Array, "batch 16"],
    act="tanh",
):
    """Return the scores."""


@jax.jit
def _loss(params, x): ...


def make():
    return jax.jit(lambda x: x)
'''
MANIFEST = """\
# yaml-language-server: $schema=aotbuild.schema.json
# Replace each TODO: by hand (`aotbuild plan` says what to write there), or run a
# program that calls these functions under `aotbuild record`.
version: 1
package: mypkg
functions:
  score:
    call: mypkg.model:score
    args:
      - weights: f32[16,4]
      - x: f32[batch,16]
    dims: {batch: TODO}
    static: {act: [tanh]}
  loss:
    call: mypkg.model:_loss
    args:
      - params: TODO
      - x: TODO
"""


@pytest.fixture(params=["", "src"])
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


def test_both_files_are_written(project: Path) -> None:
    printed = run("init", "mypkg.model", "--yes").stdout
    assert (project / "aot.yaml").read_text() == MANIFEST
    table = tomllib.loads((project / "pyproject.toml").read_text())
    assert table["project"]["dynamic"] == ["dependencies"]
    assert "score     mypkg.model:score  jax.jit  1\nloss" in printed
    assert ".py:22: the jit of lambda x: x\n" in printed
    assert "\n+++ aot.yaml\n" in printed
    assert "\n+++ pyproject.toml\n" in printed
    wrote = "wrote aot.yaml, aotbuild.schema.json, pyproject.toml"
    assert f"\n{wrote}. Next:\n  1. replace 3 TODOs" in printed


def test_the_schema_is_where_the_first_line_says(project: Path) -> None:
    """Editors look for it beside the manifest, and say so if it is not there."""
    printed = run("init", "mypkg.model", "--yes").stdout
    named = MANIFEST.splitlines()[0].partition("$schema=")[2]
    schema = project / named
    assert schema.read_text() == run("schema").stdout
    assert "\naotbuild.schema.json: new; editors check aot.yaml by it\n" in printed
    schema.write_text("{}")
    (project / "aot.yaml").unlink()
    run("init", "mypkg.model", "--yes")
    assert schema.read_text() == "{}"


def test_what_is_left_is_refused_and_then_planned(project: Path) -> None:
    run("init", "mypkg.model:score", "--yes")
    refused = run("plan", code=3).stderr
    wanted = "TODO is left here; write the sizes of this dim, such as [1, 8]"
    assert refused.splitlines()[1:] == [f"aot.yaml:12:19: functions.score.dims.batch: {wanted}"]
    manifest = project / "aot.yaml"
    manifest.write_text(manifest.read_text().replace("TODO}", "[1, 8]}"))
    assert [len(f.rows) for f in load_manifest(manifest).functions.values()] == [2]


@pytest.mark.parametrize("options", [(), ("--dry-run",), ("--json",)])
def test_nothing_is_written_unless_told(project: Path, options: tuple[str, ...]) -> None:
    run("init", "mypkg.model", *options)
    assert sorted(path.name for path in project.iterdir()) in (["mypkg"], ["src"])


@pytest.mark.process
@pytest.mark.parametrize("project", [""], indirect=True)
def test_a_terminal_is_asked(project: Path) -> None:
    """Nothing is written until somebody says yes."""
    for answer, is_written in ((b"\n", False), (b"y\n", True)):
        ours, theirs = pty.openpty()
        os.write(ours, answer)
        command = [sys.executable, "-m", "aotbuild", "init", "mypkg.model"]
        done = subprocess.run(command, stdin=theirs, stdout=theirs, stderr=theirs, check=False)
        os.close(theirs)
        assert done.returncode == 0
        asked = b"Write aot.yaml, aotbuild.schema.json, pyproject.toml? [y/N] "
        assert asked in _all_of(ours)
        assert (project / "aot.yaml").exists() is is_written


def _all_of(terminal: int) -> bytes:
    """Return what was printed on a terminal that nobody has open any more."""
    found = b""
    with contextlib.suppress(OSError):  # how Linux says that nobody has
        while read := os.read(terminal, 65536):
            found += read
    os.close(terminal)
    return found


def test_json(project: Path) -> None:
    document = json.loads(run("init", "mypkg.model", "--json", "--yes").stdout)
    assert document["error"] is None
    assert document["package"] == "mypkg"
    assert [(f["name"], f["todo"], f["jit"]) for f in document["functions"]] == [
        ("score", 1, "jax.jit"),
        ("loss", 2, "jax.jit"),
    ]
    assert document["functions"][1]["entry"] == MANIFEST[MANIFEST.index("  loss:") :]
    (unnamed,) = document["unnamed"]
    assert (unnamed["line"], unnamed["what"]) == (22, "the jit of lambda x: x")
    names = ["aot.yaml", "aotbuild.schema.json", "pyproject.toml"]
    assert [change["file"] for change in document["changes"]] == names
    assert document["written"] == names


def test_an_existing_manifest_stays(project: Path) -> None:
    run("init", "mypkg.model:score", "--yes")
    before = (project / "aot.yaml").read_text()
    printed = run("init", "mypkg.model", "--yes").stdout
    assert (project / "aot.yaml").read_text() == before
    assert "score: in aot.yaml already\n" in printed
    assert "Add this to its functions:\n\n  loss:\n    call: mypkg.model:_loss\n" in printed
    assert "nothing to write" in printed


def test_the_manifest_is_the_one_of_the_hook(project: Path) -> None:
    (project / "conf").mkdir()
    table = '[tool.hatch.build.targets.wheel.hooks.aotbuild]\nmanifest = "conf/net.yaml"\n'
    (project / "pyproject.toml").write_text(f'[project]\nname = "mypkg"\nversion = "1"\n{table}')
    printed = run("init", "mypkg.model:score", "--yes").stdout
    names = {path.name for path in (project / "conf").iterdir()}
    assert names == {"net.yaml", "aotbuild.schema.json"}
    assert "1. replace 1 TODO in conf/net.yaml, or run" in printed
    assert "2. aotbuild plan conf/net.yaml" in printed
    keys = tomllib.loads((project / "pyproject.toml").read_text())["tool"]["uv"]["cache-keys"]
    assert "conf/net.yaml" in {key["file"] for key in keys}


@pytest.mark.parametrize("file", ["setup.py", "pyproject.toml"])
def test_another_backend(project: Path, file: str) -> None:
    text = '[build-system]\nrequires = ["uv_build"]\nbuild-backend = "uv_build"\n'
    (project / file).write_text(text if file == "pyproject.toml" else "")
    printed = run("init", "mypkg.model", "--yes").stdout
    assert "pyproject.toml is left as it is: " in printed
    assert "3. aotbuild build" in printed
    assert 'build-backend = "hatch_aotbuild.backend"' in printed
    assert (project / "aot.yaml").exists()
    assert (project / file).read_text() == (text if file == "pyproject.toml" else "")


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
    refused = run("init", module, "--yes", code=3).stderr
    assert said in refused
    assert not (project / "aot.yaml").exists()


def test_nothing_is_half_written(project: Path) -> None:
    (project / "pyproject.toml").write_text("[project")
    refused = run("init", "mypkg.model", "--yes", code=3).stderr
    assert refused.startswith("pyproject.toml: not TOML: ")
    assert not (project / "aot.yaml").exists()


def test_wrong_usage() -> None:
    assert (
        "--yes writes, and --dry-run does not" in invoke("init", "m", "--yes", "--dry-run").stderr
    )
