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
# Replace each TODO; `aotbuild plan` says what to write there.
version: 1
package: mypkg
functions:
  score:
    call: mypkg.model:score
    args:
      - weights: f32[16,4]  # Float[Array, '16 4']
      - x: f32[batch,16]  # Float[Array, 'batch 16']
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
    assert ".py:22: jax.jit of a lambda: is made inside make(), anew in each call\n" in printed
    assert "\n+++ aot.yaml\n" in printed
    assert "\n+++ pyproject.toml\n" in printed
    wrote = "wrote aot.yaml, aotbuild.schema.json and pyproject.toml"
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
    assert refused.splitlines()[1:] == [f"aot.yaml:11:19: functions.score.dims.batch: {wanted}"]
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
        asked = b"Write aot.yaml, aotbuild.schema.json and pyproject.toml? [y/N] "
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
    (left_out,) = document["left_out"]
    assert (left_out["line"], left_out["what"]) == (22, "jax.jit of a lambda")
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
    table = '[tool.hatch.build.hooks.aotbuild]\nmanifest = "conf/net.yaml"\n'
    (project / "pyproject.toml").write_text(f'[project]\nname = "mypkg"\nversion = "1"\n{table}')
    printed = run("init", "mypkg.model:score", "--yes").stdout
    assert {path.name for path in (project / "conf").iterdir()} == {
        "net.yaml",
        "aotbuild.schema.json",
    }
    assert "1. replace 1 TODO in conf/net.yaml; `aotbuild plan conf/net.yaml --root .`" in printed
    keys = tomllib.loads((project / "pyproject.toml").read_text())["tool"]["uv"]["cache-keys"]
    assert {"conf/net.yaml", "conf/aot.trees.json"} <= {key["file"] for key in keys}


def test_a_project_of_setup_py_gets_no_pyproject(project: Path) -> None:
    (project / "setup.py").touch()
    printed = run("init", "mypkg.model", "--yes").stdout
    assert "pyproject.toml is left as it is: it is built by setuptools" in printed
    assert not (project / "pyproject.toml").exists()
    assert (project / "aot.yaml").exists()


def test_another_backend(project: Path) -> None:
    text = '[project]\nname = "mypkg"\nversion = "1"\n\n[build-system]\nrequires = ["uv_build"]\n'
    file = project / "pyproject.toml"
    file.write_text(f'{text}build-backend = "uv_build"\n')
    printed = run("init", "mypkg.model", "--yes").stdout
    assert "pyproject.toml is left as it is: it is built by uv_build" in printed
    assert "2. aotbuild build" in printed or "3. aotbuild build" in printed
    assert "pip wheel" not in printed
    assert '+build-backend = "hatch_aotbuild.backend"' in printed
    assert (file.read_text(), (project / "aot.yaml").exists()) == (
        f'{text}build-backend = "uv_build"\n',
        True,
    )
    run("init", "mypkg.model", "--yes", "--backend", "hatchling")
    assert 'build-backend = "hatch_aotbuild.backend"' in file.read_text()


def test_a_package_with_all_that_is_in_it(project: Path) -> None:
    refused = run("init", "mypkg", code=4).stderr
    assert "read all modules of the package with --recursive" in refused
    (folder,) = project.rglob("mypkg")
    (folder / "deep").mkdir()
    (folder / "deep" / "__init__.py").touch()
    (folder / "deep" / "test_it.py").write_text("import jax\nf = jax.jit(lambda x: x)\n")
    (folder / "deep" / "other.py").write_text("import jax\nscore = jax.jit(lambda x: x)\n")
    document = json.loads(run("init", "mypkg", "--recursive", "--json").stdout)
    assert [(f["name"], f["call"]) for f in document["functions"]] == [
        ("score", "mypkg.deep.other:score"),
        ("model_score", "mypkg.model:score"),
        ("loss", "mypkg.model:_loss"),
    ]


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("mypkg.modle", "no module 'mypkg.modle' (did you mean 'model'?)\n  searched "),
        (
            "mypkg/model.py",
            "is not the name of a module (did you mean 'mypkg.model'?)\n",
        ),
        ("mypkg.model:scor", "it defines no function 'scor' (did you mean 'score'?)\n"),
        (
            "mypkg.plain",
            "Name functions yourself: aotbuild init mypkg.plain:f\nOthers: mypkg.plain:g.\n",
        ),
        ("mypkg.wrong", "wrong.py:2: not Python of this version: "),
        ("mypkg.01", "'mypkg.01' is not the name of a module\n"),
        ("alone", "it is in no package, and _aot/ needs one"),
    ],
)
def test_what_is_refused(project: Path, module: str, said: str) -> None:
    (folder,) = project.rglob("mypkg")
    (folder / "plain.py").write_text("def f(x): ...\ndef g(x): ...\ndef _h(x): ...\n")
    (folder / "wrong.py").write_text("x = 1\ndef f(:\n")
    (project / "alone.py").write_text("import jax\nf = jax.jit(lambda x: x)\n")
    refused = run("init", module, "--yes", code=4).stderr
    assert said in refused
    assert not (project / "aot.yaml").exists()


def test_nothing_is_half_written(project: Path) -> None:
    (project / "pyproject.toml").write_text("[project")
    refused = run("init", "mypkg.model", "--yes", code=4).stderr
    assert refused.startswith("pyproject.toml: not TOML: ")
    assert not (project / "aot.yaml").exists()


def test_wrong_usage() -> None:
    assert (
        "--yes writes, and --dry-run does not" in invoke("init", "m", "--yes", "--dry-run").stderr
    )
